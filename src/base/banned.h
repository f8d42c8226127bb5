/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Functions whose safe use cannot be seen at the call site. The remedy is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* fortified headers make macros of some of them */
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat strncpy strncat /* buf_* or snprintf */
#pragma GCC poison sprintf vsprintf              /* snprintf, buf_printf */
#pragma GCC poison strtok gmtime localtime ctime asctime
#pragma GCC poison atoi atol atoll atof /* parse_* */
#pragma GCC poison system popen tmpnam  /* processes are started by the launcher */
