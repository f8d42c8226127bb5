/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commands. argv[0] is the command's own name; each returns the exit status of the program
 * and has said on stderr what went wrong.
 */
int cmd_run(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
