/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macro.h"
#include "contest.h"

#define NUMPY                                                                                      \
	"import numpy, pandas\nprint(int(numpy.arange(4).sum()), int(pandas.Series([1, "           \
	"2]).sum()))"

const struct workload workloads[] = {
	{ .name = "true",
	  .output = "",
	  .argv = { "true" },
	  .language = LANGUAGE_SHELL,
	  .code = "exec true",
	  .exec = true },
	{ .name = "sh -c 'echo hi'",
	  .output = "hi\n",
	  .argv = { "sh", "-c", "echo hi" },
	  .language = LANGUAGE_SHELL,
	  .code = "echo hi" },
	{ .name = "Python print(1)",
	  .output = "1\n",
	  .argv = { "python3", "-c", "print(1)" },
	  .language = LANGUAGE_PYTHON,
	  .code = "print(1)" },
	{ .name = "Python import numpy, pandas",
	  .output = "6 3\n",
	  .argv = { "python3", "-c", NUMPY },
	  .language = LANGUAGE_PYTHON,
	  .code = NUMPY,
	  .modules = { "numpy", "pandas" },
	  .n_modules = 2 },
	{ .name = "Node console.log(1)",
	  .output = "1\n",
	  .argv = { "node", "-e", "console.log(1)" },
	  .language = LANGUAGE_JAVASCRIPT,
	  .code = "console.log(1)" },
};

const size_t workloads_n = ELEMENTSOF(workloads);
