# How tests are made and registered: two functions, used by every tests/<area>/CMakeLists.txt.
#
#   farpage_unit_test(<name> SOURCES a.cpp... [LIBRARIES target...] [LABELS unit...] [TIMEOUT seconds]
#                     [SANITIZE ...] [ARGS ...])
#     A doctest executable (its main comes from tests/doctest_main.cpp) and one ctest entry. LIBRARIES defaults to
#     farpage_internal, LABELS to unit, TIMEOUT to 120.
#
#   farpage_test_program(<name> SOURCES a.cpp... [LIBRARIES target...])
#     The executable alone: programs that run under mpirun and bring their own main.
#
#   farpage_mpi_test(<name> NP <ranks> COMMAND <target> [args...] [ENV DSM_DOMAIN=rank...] [LABELS mpi...]
#                    [TIMEOUT seconds] [SANITIZE ...] [RUN_SERIAL] [WILL_FAIL] [PASS_REGULAR_EXPRESSION re] [MPIRUN_FLAGS ...])
#     One ctest entry that runs the target under mpirun. LABELS defaults to mpi, TIMEOUT to 120. RUN_SERIAL for tests that
#     measure time. NP 0 runs the target without mpirun.

#   farpage_test_properties(<name> PROPERTY value ...)
#     set_tests_properties for one of them, under its own name; nothing where this build does not have the test.
#
# Under a sanitizer (FARPAGE_SANITIZE) test names begin with asan: or tsan:, and only these are registered: unit tests; MPI
# tests with 2 and 4 ranks (ASan) or 2 ranks (TSan); nothing labelled litmus, model, bench or tidy. SANITIZE address,
# SANITIZE thread, SANITIZE address thread, or SANITIZE none in a call replaces that rule for the test.
# FARPAGE_FULL_MATRIX (tools/test --full): areas register all cells of ranks x domains x transports, not the pairwise ones.

option(FARPAGE_FULL_MATRIX "Register the full test matrix instead of its pairwise cells" OFF)
if(FARPAGE_SANITIZE MATCHES thread)
  set(FARPAGE_TEST_SANITIZER thread)
  set(FARPAGE_TEST_PREFIX tsan:)
elseif(FARPAGE_SANITIZE)
  set(FARPAGE_TEST_SANITIZER address)
  set(FARPAGE_TEST_PREFIX asan:)
endif()

# fast_unwind_on_malloc=0: Open MPI unloads its plugins before the leak check; only the whole stack still names libmpi.
set(FARPAGE_TEST_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_WARN_UNUSED_ENV_VARS=n
    "ASAN_OPTIONS=detect_stack_use_after_return=0:fast_unwind_on_malloc=0:abort_on_error=1:disable_coredump=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/suppressions/lsan.supp:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/suppressions/tsan.supp:history_size=4")

# Where a regular expression decides that a test has passed its exit status counts no more: a sanitizer's report still must.
set(FARPAGE_TEST_FAILS "ThreadSanitizer|AddressSanitizer|LeakSanitizer|runtime error:")

# Sets `out`: is a test with these labels and ranks (0: no mpirun) registered in this build?
function(farpage_test_wanted out labels np sanitize)
  set(wanted ON)
  if(FARPAGE_TEST_SANITIZER)
    if(sanitize)
      if(NOT FARPAGE_TEST_SANITIZER IN_LIST sanitize)
        set(wanted OFF)
      endif()
    elseif(labels MATCHES "litmus|model|bench|tidy" OR np EQUAL 1 OR np GREATER 4)
      set(wanted OFF)
    elseif(FARPAGE_TEST_SANITIZER STREQUAL thread AND np GREATER 2)
      set(wanted OFF)
    endif()
  endif()
  set(${out} ${wanted} PARENT_SCOPE)
endfunction()

function(farpage_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES farpage_internal)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} doctest::doctest fmt::fmt)
  # Programs that see only the public library need the sanitizer's runtime themselves: it must be loaded first.
  if(FARPAGE_SANITIZE)
    target_compile_options(${name} PRIVATE -fsanitize=${FARPAGE_SANITIZE})
    target_link_options(${name} PRIVATE -fsanitize=${FARPAGE_SANITIZE})
  endif()
endfunction()

function(farpage_unit_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ARGS;SANITIZE" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  farpage_test_wanted(wanted "${arg_LABELS}" 0 "${arg_SANITIZE}")
  if(NOT wanted)
    return()
  endif()
  farpage_test_program(${name} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
  target_link_libraries(${name} PRIVATE farpage_doctest_main)
  set(test ${FARPAGE_TEST_PREFIX}${name})
  add_test(NAME ${test} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${test} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                       ENVIRONMENT "${FARPAGE_TEST_ENVIRONMENT}" FAIL_REGULAR_EXPRESSION "${FARPAGE_TEST_FAILS}")
endfunction()

function(farpage_test_properties name)
  if(TEST ${FARPAGE_TEST_PREFIX}${name})
    set_tests_properties(${FARPAGE_TEST_PREFIX}${name} PROPERTIES ${ARGN})
  endif()
endfunction()

function(farpage_mpi_test name)
  cmake_parse_arguments(arg "RUN_SERIAL;WILL_FAIL" "NP;TIMEOUT;PASS_REGULAR_EXPRESSION"
                        "COMMAND;ENV;LABELS;MPIRUN_FLAGS;SANITIZE" ${ARGN})
  if(NOT DEFINED arg_NP OR NOT arg_COMMAND)
    message(FATAL_ERROR "farpage_mpi_test(${name}): NP and COMMAND are needed")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS mpi)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  farpage_test_wanted(wanted "${arg_LABELS}" ${arg_NP} "${arg_SANITIZE}")
  if(NOT wanted)
    return()
  endif()
  set(test ${FARPAGE_TEST_PREFIX}${name})
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  if(arg_NP EQUAL 0)
    add_test(NAME ${test} COMMAND ${program} ${arg_COMMAND})
    set(processors 1)
  else()
    # More ranks than cores are the normal case here; ranks that are bound to one core would share it needlessly.
    add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -np ${arg_NP}
             ${arg_MPIRUN_FLAGS} ${program} ${arg_COMMAND})
    set(processors ${arg_NP})
  endif()
  set_tests_properties(${test} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${processors}
                       ENVIRONMENT "${FARPAGE_TEST_ENVIRONMENT};${arg_ENV}" FAIL_REGULAR_EXPRESSION "${FARPAGE_TEST_FAILS}")
  if(arg_RUN_SERIAL)
    set_tests_properties(${test} PROPERTIES RUN_SERIAL ON)
  endif()
  if(arg_WILL_FAIL)
    set_tests_properties(${test} PROPERTIES WILL_FAIL ON)
  endif()
  if(arg_PASS_REGULAR_EXPRESSION)
    set_tests_properties(${test} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_PASS_REGULAR_EXPRESSION}")
  endif()
endfunction()
