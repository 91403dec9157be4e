# How tests are made and registered: two functions, used by every tests/<area>/CMakeLists.txt.
#
#   farpage_unit_test(<name> SOURCES a.cpp... [LIBRARIES target...] [LABELS unit...] [TIMEOUT seconds] [ARGS ...])
#     A doctest executable (its main comes from tests/doctest_main.cpp) and one ctest entry. LIBRARIES defaults to
#     farpage_internal, LABELS to unit, TIMEOUT to 120.
#
#   farpage_test_program(<name> SOURCES a.cpp... [LIBRARIES target...])
#     The executable alone: programs that run under mpirun and bring their own main.
#
#   farpage_mpi_test(<name> NP <ranks> COMMAND <target> [args...] [ENV DSM_DOMAIN=rank...] [LABELS mpi...]
#                    [TIMEOUT seconds] [RUN_SERIAL] [WILL_FAIL] [PASS_REGULAR_EXPRESSION re] [MPIRUN_FLAGS ...])
#     One ctest entry that runs the target under mpirun. LABELS defaults to mpi, TIMEOUT to 120. RUN_SERIAL for tests that
#     measure time. NP 0 runs the target without mpirun.

set(FARPAGE_TEST_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_WARN_UNUSED_ENV_VARS=n
    "ASAN_OPTIONS=detect_stack_use_after_return=0:abort_on_error=1:disable_coredump=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/suppressions/lsan.supp:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/suppressions/tsan.supp:history_size=4")

function(farpage_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_LIBRARIES)
    set(arg_LIBRARIES farpage_internal)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} doctest::doctest fmt::fmt)
endfunction()

function(farpage_unit_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ARGS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  farpage_test_program(${name} SOURCES ${arg_SOURCES} LIBRARIES ${arg_LIBRARIES})
  target_link_libraries(${name} PRIVATE farpage_doctest_main)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                       ENVIRONMENT "${FARPAGE_TEST_ENVIRONMENT}")
endfunction()

function(farpage_mpi_test name)
  cmake_parse_arguments(arg "RUN_SERIAL;WILL_FAIL" "NP;TIMEOUT;PASS_REGULAR_EXPRESSION"
                        "COMMAND;ENV;LABELS;MPIRUN_FLAGS" ${ARGN})
  if(NOT DEFINED arg_NP OR NOT arg_COMMAND)
    message(FATAL_ERROR "farpage_mpi_test(${name}): NP and COMMAND are needed")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS mpi)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  if(arg_NP EQUAL 0)
    add_test(NAME ${name} COMMAND ${program} ${arg_COMMAND})
    set(processors 1)
  else()
    # More ranks than cores are the normal case here; ranks that are bound to one core would share it needlessly.
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -np ${arg_NP}
             ${arg_MPIRUN_FLAGS} ${program} ${arg_COMMAND})
    set(processors ${arg_NP})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${processors}
                       ENVIRONMENT "${FARPAGE_TEST_ENVIRONMENT};${arg_ENV}")
  if(arg_RUN_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(arg_WILL_FAIL)
    set_tests_properties(${name} PROPERTIES WILL_FAIL ON)
  endif()
  if(arg_PASS_REGULAR_EXPRESSION)
    set_tests_properties(${name} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_PASS_REGULAR_EXPRESSION}")
  endif()
endfunction()
