#!/usr/bin/env python3
"""tidy.py finds what it is there for: each case plants one mistake in a small clean tree and expects exactly that finding."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

CLEAN = {
    "runtime/base/CMakeLists.txt": "add_library(b OBJECT a.cpp options.cpp)\n",
    "runtime/base/a.hpp": "// What it is.\n#pragma once\n#include <string>\nstd::string a();\n",
    "runtime/base/a.cpp": '#include "runtime/base/a.hpp"\n',
    "runtime/base/options.cpp": 'const char* home() { return getenv("HOME"); }\n',
    "runtime/memory/page.hpp": '// Pages.\n#pragma once\n#include "runtime/base/a.hpp"\n',
    "transport/CMakeLists.txt": "add_library(t OBJECT bootstrap_mpi.cpp ucx.cpp)\n",
    "transport/bootstrap_mpi.cpp": "#include <mpi.h>\n",
    "transport/ucx.cpp": "#include <ucp/api/ucp.h>\n",
    "api/include/farpage/dsm.h": "/* C. */\n#ifndef FARPAGE_DSM_H\n#define FARPAGE_DSM_H\nint dsm_rank(void);\n#endif\n",
    "mpi_examples/CMakeLists.txt": "foreach(example hello)\nendforeach()\n",
    "mpi_examples/hello.cpp": "#include <farpage/dsm.h>\n#include <mpi.h>\n",
    "tests/CMakeLists.txt": "add_executable(t all.cpp)\n",
    "tests/all.cpp": '#include "runtime/engine/none.hpp"\n#include <cstdlib>\nint x = setenv("A", "1", 1);\n',
    "docs/a.md": "generated\n",
}


class Planted(unittest.TestCase):
    def findings(self, changes, **options):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **changes}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return tidy.run(root, **options)

    def expect(self, rule, place, changes, **options):
        findings = self.findings(changes, **options)
        self.assertEqual(len(findings), 1, findings)
        self.assertTrue(findings[0].startswith(f"{place}: {rule}: "), findings[0])

    def test_clean_tree_has_no_findings(self):
        self.assertEqual(self.findings({}, compiler="c++", generated=[("docs/a.md", "echo generated")]), [])

    def test_base_includes_nothing_above(self):
        self.expect("layers", "runtime/base/a.cpp:1", {"runtime/base/a.cpp": '#include "runtime/memory/page.hpp"\n'})

    def test_neighbours_do_not_include_each_other(self):
        self.expect("layers", "transport/ucx.cpp:2",
                    {"transport/ucx.cpp": '#include <ucp/api/ucp.h>\n#include "runtime/memory/page.hpp"\n'})

    def test_engine_does_not_include_weights(self):
        self.expect("layers", "runtime/engine/e.hpp:3",
                    {"runtime/engine/e.hpp": '// E.\n#pragma once\n#include "runtime/weights/weights.hpp"\n'})

    def test_examples_include_public_headers_only(self):
        self.expect("layers", "mpi_examples/hello.cpp:1", {"mpi_examples/hello.cpp": '#include "runtime/base/a.hpp"\n'})

    def test_an_include_outside_all_layers(self):
        self.expect("layers", "runtime/base/a.cpp:1", {"runtime/base/a.cpp": '#include "third_party/x.hpp"\n'})

    def test_mpi_in_one_file_only(self):
        self.expect("mpi", "runtime/base/a.cpp:1", {"runtime/base/a.cpp": "#include <mpi.h>\n"})

    def test_ucx_inside_transport_only(self):
        self.expect("ucx", "transport/transport.hpp:3",
                    {"transport/transport.hpp": "// T.\n#pragma once\n#include <ucp/api/ucp.h>\n"})
        self.expect("ucx", "runtime/base/a.cpp:1", {"runtime/base/a.cpp": "#include <uct/api/uct.h>\n"})

    def test_cuda_in_device_and_transport_only(self):
        self.expect("cuda", "runtime/base/a.cpp:1", {"runtime/base/a.cpp": "#include <cuda_runtime.h>\n"})

    def test_environment_in_one_file_only(self):
        self.expect("getenv", "runtime/base/a.cpp:2", {"runtime/base/a.cpp": '// getenv("X") here is a comment\nauto x = std::getenv("X");\n'})

    def test_header_says_what_it_is(self):
        self.expect("opening", "runtime/base/a.hpp:1", {"runtime/base/a.hpp": "#pragma once\n"})

    def test_header_has_a_guard(self):
        self.expect("guard", "runtime/base/a.hpp:1", {"runtime/base/a.hpp": "// A.\nint a();\n"})

    def test_header_that_needs_another(self):
        self.expect("self-contained", "runtime/memory/page.hpp:1",
                    {"runtime/memory/page.hpp": "// Pages.\n#pragma once\nstd::string a();\n"}, compiler="c++")

    def test_public_header_that_is_no_c(self):
        self.expect("self-contained", "api/include/farpage/dsm.h:1",
                    {"api/include/farpage/dsm.h": "/* C. */\n#ifndef FARPAGE_DSM_H\n#define FARPAGE_DSM_H\nclass X;\n#endif\n"}, compiler="c++")

    def test_words(self):
        for text in ("// TODO: later\n", "// fixme\n", "// good enough for now\n", "// a placeholder\n"):
            self.expect("words", "runtime/base/a.cpp:1", {"runtime/base/a.cpp": text})

    def test_paths_of_a_machine(self):
        self.expect("paths", "docs/a.md:1", {"docs/a.md": "see /home/someone/notes\n"})

    def test_links(self):
        self.expect("links", "docs/b.md:2", {"docs/b.md": "[a](a.md), [top](../docs/a.md#part), [web](https://x.org/y)\n[b](c.md)\n"})

    def test_source_that_nobody_builds(self):
        self.expect("built", "runtime/base/b.cpp:1", {"runtime/base/b.cpp": "\n"})

    def test_generated_file_out_of_date(self):
        self.expect("generated", "docs/a.md:1", {}, generated=[("docs/a.md", "echo other")])

    def test_generated_part_may_stand_inside_a_file(self):
        self.assertEqual(self.findings({"docs/a.md": "before\ngenerated\nafter\n"}, generated=[("docs/a.md", "echo generated")]), [])

    def test_generated_file_missing(self):
        self.expect("generated", "docs/b.md:1", {}, generated=[("docs/b.md", "echo generated")])


if __name__ == "__main__":
    unittest.main()
