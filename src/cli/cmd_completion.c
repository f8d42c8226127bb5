/* SPDX-License-Identifier: Apache-2.0 */

/*
 * brig completion: words for shells. The scripts ask brig itself for its commands and options, so
 * they need no change when those do.
 */

#include <stdio.h>

#include "base/str.h"
#include "cli/cmd.h"

static const char completion_help[] =
	"Usage: brig completion bash|zsh|fish\n"
	"\n"
	"Writes a script that lets the shell complete brig's commands, options and ids.\n"
	"\n"
	"  -h, --help           this text\n"
	"\n"
	"Examples:\n"
	"  . <(brig completion bash)\n"
	"  brig completion zsh > ~/.zfunc/_brig\n"
	"  brig completion fish > ~/.config/fish/completions/brig.fish\n";

#define COMMANDS "brig --help 2>/dev/null | sed -n 's/^  \\([a-z][a-z]*\\)  *.*/\\1/p'"
#define OPTIONS  " --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u"
#define IDS      "brig ps -a 2>/dev/null | awk 'length($1) == 26 { print $1 }'"
#define ASKED    "brig approvals ls 2>/dev/null | awk 'length($1) == 26 { print $1 }'"

static const char bash[] =
	"_brig() {\n"
	"\tlocal word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=\n"
	"\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
	"\t\twords=$(" COMMANDS ")\n"
	"\telif [[ $word == -* ]]; then\n"
	"\t\twords=$(brig \"$command\"" OPTIONS ")\n"
	"\telse\n"
	"\t\tcase $command in\n"
	"\t\tlogs|wait|cancel) words=$(" IDS ") ;;\n"
	"\t\tapprovals)\n"
	"\t\t\tif [ \"$COMP_CWORD\" -eq 2 ]; then words='ls show allow deny revoke'\n"
	"\t\t\telse words=$(" ASKED "); fi ;;\n"
	"\t\tcompletion) words='bash zsh fish' ;;\n"
	"\t\tesac\n"
	"\tfi\n"
	"\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	"}\n"
	"complete -o default -F _brig brig\n";

static const char zsh[] = "#compdef brig\n"
			  "_brig() {\n"
			  "\tlocal command=${words[2]}\n"
			  "\tif (( CURRENT == 2 )); then\n"
			  "\t\tcompadd -- $(" COMMANDS ")\n"
			  "\telif [[ $PREFIX == -* ]]; then\n"
			  "\t\tcompadd -- $(brig \"$command\"" OPTIONS ")\n"
			  "\telse\n"
			  "\t\tcase $command in\n"
			  "\t\tlogs|wait|cancel) compadd -- $(" IDS ") ;;\n"
			  "\t\tapprovals)\n"
			  "\t\t\tif (( CURRENT == 3 )); then compadd -- ls show allow deny revoke\n"
			  "\t\t\telse compadd -- $(" ASKED "); fi ;;\n"
			  "\t\tcompletion) compadd -- bash zsh fish ;;\n"
			  "\t\t*) _files ;;\n"
			  "\t\tesac\n"
			  "\tfi\n"
			  "}\n"
			  "compdef _brig brig\n";

static const char fish[] =
	"function __brig_command\n"
	"\tset -l words (commandline -opc)\n"
	"\ttest (count $words) -ge 2; and echo $words[2]\n"
	"end\n"
	"function __brig_options\n"
	"\tset -l command (__brig_command)\n"
	"\ttest -n \"$command\"; and brig $command" OPTIONS "\n"
	"end\n"
	"function __brig_commands\n"
	"\t" COMMANDS "\n"
	"end\n"
	"function __brig_ids\n"
	"\t" IDS "\n"
	"end\n"
	"function __brig_asked\n"
	"\tprintf '%s\\n' ls show allow deny revoke\n"
	"\t" ASKED "\n"
	"end\n"
	"complete -c brig -n 'test -z (__brig_command)\"\"' -f -a '(__brig_commands)'\n"
	"complete -c brig -n 'string match -q -- \"-*\" (commandline -ct)' -f -a "
	"'(__brig_options)'\n"
	"complete -c brig -n 'contains -- (__brig_command)\"\" logs wait cancel' -f -a "
	"'(__brig_ids)'\n"
	"complete -c brig -n 'contains -- (__brig_command)\"\" approvals' -f -a "
	"'(__brig_asked)'\n"
	"complete -c brig -n 'contains -- (__brig_command)\"\" completion' -f -a 'bash zsh fish'\n";

int cmd_completion(int argc, char **argv)
{
	static const struct {
		const char *name, *script;
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
	const char *word = argc == 2 ? argv[1] : "";

	if (streq(word, "-h") || streq(word, "--help"))
		return fputs(completion_help, stdout) < 0 ? 125 : 0;
	for (size_t i = 0; i < ELEMENTSOF(shells); i++)
		if (streq(word, shells[i].name))
			return fputs(shells[i].script, stdout) < 0 ? 125 : 0;
	(void)fprintf(stderr, "brig: for which shell?\n      brig completion bash|zsh|fish\n");
	return 2;
}
