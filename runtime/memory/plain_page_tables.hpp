// Page tables of a domain that runs alone and without userfaultfd: all its ranks have the window as plain shared memory, so
// nothing has to be mapped, and only freeing does something. Stray accesses are not caught.
#pragma once

#include <memory>

#include "runtime/memory/page_tables.hpp"

namespace farpage::memory {

/// `window_file` outlives it. The lane's alone.
std::unique_ptr<PageTables> make_plain_page_tables(int window_file);

}  // namespace farpage::memory
