; Shell rules. A command is seen under its resolved name (quotes, variables, paths taken away);
; a wrapper (sudo, env, xargs, find -exec) and what it runs are both seen. "<function>" is a name that
; the script itself defines: what it does is seen where it is defined.
; An expression in #arg? and #string-match? is tried on the cooked word, in #match? on the source.

; ---- destroys ----

; rm -r of something absolute, of the home or of everything here
((command name: (_) @c) @hit
 (#name? @c "rm")
 (#arg? @hit "*" "^-[a-zA-Z]*[rR]|^--recursive$")
 (#arg? @hit "*" "^(/|~|[.]?[*]$|[.][.]?/?$)")
 (#rule! "sh.destroy.rm-tree" critical "destroy" "deletes a whole tree outside of the work"))

; rm -r of what is only known at run time: it may be anything
((command name: (_) @c) @hit
 (#name? @c "rm")
 (#arg? @hit "*" "^-[a-zA-Z]*[rR]|^--recursive$")
 (#dynamic-arg? @hit "*")
 (#rule! "sh.destroy.rm-variable" critical "destroy" "deletes a tree that is only known at run time"))

((command name: (_) @c) @hit
 (#name? @c "xargs" "parallel")
 (#arg? @hit "*" "^(.*/)?rm$")
 (#arg? @hit "*" "^-[a-zA-Z]*[rR]|^--recursive$")
 (#rule! "sh.destroy.rm-input" critical "destroy" "deletes trees that the input names"))

((command name: (_) @c) @hit
 (#name? @c "dd" "dcfldd" "ddrescue")
 (#rule! "sh.destroy.dd" critical "destroy" "copies raw bytes over files or devices"))

((command name: (_) @c) @hit
 (#name? @c "mkfs" "mkfs.*" "mke2fs" "mkswap" "mkdosfs" "mkntfs" "newfs")
 (#rule! "sh.destroy.mkfs" critical "destroy" "formats a device"))

((command name: (_) @c) @hit
 (#name? @c "fdisk" "sfdisk" "cfdisk" "sgdisk" "gdisk" "parted" "wipefs" "blkdiscard" "hdparm"
  "lvremove" "vgremove" "pvremove" "lvreduce" "mdadm" "cryptsetup" "zpool" "zfs" "badblocks"
  "nvme" "tune2fs" "resize2fs" "debugfs" "losetup" "shred" "wipe" "srm" "scrub")
 (#not-name? @c "<function>")
 (#rule! "sh.destroy.disk" critical "destroy" "destroys disks, partitions or files beyond recovery"))

((command name: (_) @c) @hit
 (#name? @c "chmod" "chown" "chgrp" "chattr" "setfacl")
 (#arg? @hit "*" "^-[a-zA-Z]*R|^--recursive$")
 (#arg? @hit "*" "^(/|~/?$)")
 (#rule! "sh.destroy.chmod-root" critical "destroy" "changes rights of a whole system tree"))

; a function that calls itself in a pipe or in the background, perhaps by way of another
([(function_definition) @text (function_definition) @bomb]
 (#bomb? @bomb)
 (#match? @text "(?s)^(?:function\\s+)?([^\\s(){}]+)\\s*(?:\\(\\s*\\))?\\s*[{(].*[\\s{;(|&]\\1(?:\\s[^\\n;|&]*)?(?:\\|&?\\s*\\1[\\s;&)}]|&(?!&))")
 (#rule! "sh.destroy.fork-bomb" critical "resource" "starts itself again and again"))

; > /dev/sda, but not /dev/null and the standard streams
([(file_redirect [">" ">>" "&>" "&>>" ">|" ">&"] destination: (_) @d)
  (command name: (_) @c) @run]
 (#string-match? @d "^/[./]*dev/(?!null$|stdin$|stdout$|stderr$|fd/|tty$|tcp/|udp/|shm/)")
 (#not-name? @c "echo" "printf" "test" "ls" "stat" "file")
 (#arg? @run "*" "^/[./]*dev/(?!null$|zero$|full$|stdin$|stdout$|stderr$|fd(/|$)|u?random$|tty$|tcp/|udp/|shm/)")
 (#rule! "sh.destroy.device" critical "destroy" "works on a disk, memory or other device"))

; ---- text becomes code ----

([(pipeline
   [(command name: (_) @from)
    (redirected_statement body: (command name: (_) @from))
    (subshell (command name: (_) @from))
    (subshell (pipeline (command name: (_) @from)))
    (compound_statement (command name: (_) @from))]
   [(command name: (_) @c)
    (redirected_statement body: (command name: (_) @c))])
  (command name: (_) @c argument:
   [(process_substitution (command name: (_) @from))
    (string (command_substitution (command name: (_) @from)))
    (command_substitution (command name: (_) @from))])] @hit
 (#name? @from "curl" "wget" "fetch" "aria2c" "lynx" "w3m" "links" "http" "https" "xh" "axel" "dig"
  "host" "nslookup" "nc" "ncat" "netcat" "socat" "telnet" "ssh" "ftp" "tftp" "GET")
 (#name? @c "sh" "bash" "dash" "zsh" "ksh" "mksh" "ash" "fish" "csh" "tcsh" "rbash" "python" "python2"
  "python3" "perl" "ruby" "node" "nodejs" "deno" "bun" "php" "lua" "source" "." "eval")
 (#rule! "sh.exec.download" critical "code-execution" "runs what it has just downloaded"))

([(pipeline (_)
   [(command name: (_) @c) @run
    (redirected_statement body: (command name: (_) @c) @run)
    (subshell (command name: (_) @c) @run)
    (compound_statement (command name: (_) @c) @run)])
  (heredoc_redirect (pipeline (command name: (_) @c) @run))
  (process_substitution ">(" (command name: (_) @c) @run)]
 (#name? @c "sh" "bash" "dash" "zsh" "ksh" "mksh" "ash" "fish" "csh" "tcsh" "rbash" "source" ".")
 (#not-arg? @run "0" "^(?!/dev/|/proc/)[^-]")
 (#not-arg? @run "*" "^-[a-z]*c$")
 (#rule! "sh.exec.pipe-shell" critical "code-execution" "runs its input as shell commands"))

([(pipeline (_)
   [(command name: (_) @c) @run
    (redirected_statement body: (command name: (_) @c) @run)])
  (heredoc_redirect (pipeline (command name: (_) @c) @run))
  (process_substitution ">(" (command name: (_) @c) @run)]
 (#name? @c "python" "python2" "python3" "perl" "ruby" "node" "nodejs" "php" "lua" "deno" "bun"
  "tclsh" "guile" "ed" "ex")
 (#not-arg? @run "0" "^[^-]|^-[a-z]*[cemrn]")
 (#rule! "sh.exec.pipe-interpreter" critical "code-execution" "runs its input as a program"))

((redirected_statement body: (command name: (_) @c) redirect: (file_redirect "<"))
 (#name? @c "sh" "bash" "dash" "zsh" "ksh" "mksh" "ash" "fish" "python" "python3" "perl" "ruby" "node")
 (#rule! "sh.exec.stdin-file" high "code-execution" "runs a file or a connection as a program"))

((command name: (_) @c) @hit
 (#name? @c "eval")
 (#rule! "sh.exec.eval" critical "code-execution" "runs a text as commands"))

((command name: (_) @c) @hit
 (#name? @c "source" ".")
 (#rule! "sh.exec.source" high "code-execution" "runs the commands of another file"))

((command name: (_) @c argument: (_) @a) @hit
 (#name? @c "source" "." "sh" "bash" "dash" "zsh" "ksh" "ash" "python" "python3" "perl" "ruby" "node")
 (#match? @a "^<\\(|^[\"']?/(dev/(stdin|fd)|proc/)")
 (#rule! "sh.exec.substituted-text" critical "code-execution" "runs a text that another program makes"))

((command name: (_) @c) @hit
 (#name? @c "sh" "bash" "dash" "zsh" "ksh" "mksh" "ash" "fish" "csh" "tcsh" "rbash")
 (#rule! "sh.exec.shell" high "code-execution" "starts a shell"))

; what they are given as text is assessed as such
((command name: (_) @c) @hit
 (#name? @c "python" "python2" "python3" "pypy3" "ipython" "node" "nodejs" "deno" "bun")
 (#rule! "sh.exec.interpreter-text" medium "code-execution" "starts an interpreter"))

((command name: (_) @c argument: (_) @f . argument: (_) @text) @hit
 (#name? @c "sh" "bash" "dash" "zsh" "ksh" "mksh" "ash" "fish" "csh" "tcsh" "rbash" "su" "runuser"
  "flock" "script" "python" "python2" "python3" "pypy3" "node" "nodejs" "bun" "deno")
 (#string-match? @f "^-[a-zA-Z]*[cp]$|^-[a-z]*pe$|^--(eval|print|command)$|^eval$")
 (#dynamic? @text)
 (#rule! "sh.exec.dynamic-text" critical "code-execution" "runs a text that is only known at run time"))

((command name: (_) @c) @hit
 (#name? @c "python" "python2" "python3" "pypy3" "node" "nodejs" "deno" "bun" "Rscript" "java" "dotnet"
  "ts-node" "tsx" "npx" "uv" "uvx" "poetry" "pipx" "jupyter" "ipython")
 (#not-no-arg? @hit "0")
 (#not-arg? @hit "*" "^-[a-zA-Z]*[cep]$|^--(eval|print|version|help)$|^-V$|^-$")
 (#rule! "sh.exec.script" high "code-execution" "runs a program that is not shown here"))

((command name: (_) @c) @hit
 (#name? @c "sh" "bash" "dash" "zsh" "ksh" "mksh" "ash" "python" "python2" "python3" "perl" "ruby"
  "node" "php" "source" "." "exec" "env" "command")
 (#arg? @hit "0" "^/(tmp|var/tmp|dev/shm)/")
 (#rule! "sh.exec.temp" critical "code-execution" "runs a program from a temporary folder"))

; $SHELL -c TEXT
((command name: (_) @c argument: (_) @f . argument: (_) @text) @hit
 (#dynamic? @c)
 (#string-match? @f "^-[a-z]*c$")
 (#embedded! @text "shell")
 (#rule! "sh.exec.dynamic-shell" high "code-execution" "gives a text to a shell that a variable names"))

((command name: (_) @c) @hit
 (#match? @c "^[\"']?(/(tmp|var/tmp|dev/shm|proc|home|root)/|~)")
 (#rule! "sh.exec.odd-path" high "code-execution" "runs a program from a place for data"))

((command name: (_) @c) @hit
 (#name? @c "perl" "ruby" "php" "lua" "luajit" "tclsh" "expect" "guile" "osascript" "R" "octave" "gnuplot"
  "groovy" "jshell" "erl" "elixir" "ghci" "swift" "julia" "pwsh" "m4" "rename" "prename" "make"
  "gmake" "cmake" "ninja" "meson" "gcc" "g++" "cc" "c++" "clang" "clang++" "ld" "as" "tcc" "rustc"
  "cargo" "go" "javac" "mvn" "gradle" "bazel" "ant" "tox" "pytest" "just" "rake" "nasm" "vi" "vim"
  "nvim" "view" "ex" "ed" "emacs" "nano" "pico" "joe" "mcedit" "code" "dc" "enable" "parallel"
  "watch" "entr" "script" "screen" "tmux" "systemd-run" "dtach" "unbuffer" "flock" "fc" "toybox"
  "start-stop-daemon" "run-parts" "daemonize" "/lib64/ld-linux-x86-64.so.2" "/lib/ld-linux.so.2"
  "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "/lib/ld-musl-x86_64.so.1")
 (#not-name? @c "<function>")
 (#rule! "sh.exec.interpreter" high "code-execution" "a program that runs or builds whatever it is given"))

; ---- the name of a command or of a file is hidden ----

((command name: (command_name
  [(command_substitution) (string (command_substitution))
   (concatenation (command_substitution)) (concatenation (string (command_substitution)))])) @hit
 (#rule! "sh.exec.substituted-command" critical "code-execution" "runs a command that a program names"))

((command name: (_) @c) @hit
 (#dynamic? @c)
 (#not-match? @c "^\\(\\(")
 (#rule! "sh.exec.dynamic-command" medium "code-execution" "runs a command only known at run time"))

((command name: (command_name [(expansion) (string (expansion)) (concatenation (expansion))]) @c) @hit
 (#match? @c "[$][{](!|[^}]*[:#%/^,@\\[])")
 (#rule! "sh.exec.computed-command" high "hidden" "makes the name of a command from pieces"))

((command name: (_) @c) @hit
 (#match? @c "^[^$`\"'\\s(]*([?*]|\\[[^\\]]+\\])")
 (#rule! "sh.exec.glob-command" high "hidden" "hides the name of a command behind a wildcard"))

((command argument: (_) @a) @hit
 (#match? @a "^/[^/\\s]*[?\\[][^/\\s]*/|^/(etc|proc|root|dev)/\\S*[?*\\[]|^/[a-z]*[*][a-z]*/[a-z]*[?*\\[]|^~/[.]\\S*[?*\\[]")
 (#rule! "sh.hide.glob-path" high "hidden" "hides a system path behind wildcards"))

; ${HOME:0:1} is a slash
((expansion) @hit
 (#match? @hit "^[$][{](HOME|PATH|PWD|OLDPWD|SHELL|TERM|LANG|USER|HOSTNAME|PS[0-9]|BASH[A-Z_]*|[A-Z]+TYPE):\\s*-?[0-9(]|^[$][{](HOME|PATH|SHELL)%%")
 (#rule! "sh.hide.slice" high "hidden" "takes letters out of a variable of the system"))

((command) @hit
 (#match? @hit "^[^'\"]*[^\\s'\"=(][$][{]?IFS\\b")
 (#rule! "sh.hide.ifs" critical "hidden" "hides the blanks between words"))

; commands where the grammar sees plain text
([(regex) @text (word) @text (extglob_pattern) @text
  (heredoc_redirect (heredoc_start) @start (heredoc_body) @body)]
 (#not-match? @start "['\"\\\\]")
 (#match? @body "(^|[^\\\\])`")
 (#match? @text "(?<!\\\\)(?:[$]\\(|`|[<>]\\()")
 (#rule! "sh.hide.pattern" high "hidden" "runs a command inside a pattern or a value"))

; the name of a command as a word that something else will run
([(command name: (_) @c) @run
  (for_statement value: (_) @w)
  (array . (_) @w)
  (herestring_redirect (_) @text)]
 (#name? @c "<function>" "set")
 (#arg? @run "*" "^(\\S*/)?(rm|dd|shred|mkfs([.]\\w+)?|sudo|eval|(ba|da|z|k)?sh|curl|wget|nc|ncat|chmod|chown|python3?|perl)(\\s.*)?$")
 (#string-match? @w "^(\\S*/)?(rm|dd|shred|mkfs([.]\\w+)?|sudo|eval|(ba|da|z|k)?sh|curl|wget|nc|ncat|chmod|chown)(\\s.*)?$")
 (#string-match? @text "^(\\S*/)?(rm|dd|shred|mkfs([.]\\w+)?|sudo|eval|curl|wget|nc|ncat|chmod|chown)\\s")
 (#rule! "sh.hide.command-word" high "hidden" "hands the name of a command to something that runs it"))

; an expansion that swallows lines is not what the shell reads
((expansion) @hit
 (#match? @hit "\\n|;;|;\\s+\\w")
 (#rule! "sh.hide.expansion" medium "hidden" "an expansion that cannot be read for sure"))

((expansion "!" (variable_name)) @hit
 (#not-match? @hit "[*@]\\}$")
 (#rule! "sh.hide.indirect" medium "hidden" "reads a variable that another one names"))

((expansion) @hit
 (#match? @hit "@P\\}$")
 (#rule! "sh.exec.prompt-expansion" critical "code-execution" "expands a text as a prompt: runs commands"))

; text that arithmetic would run: a[$(command)]
([(variable_assignment value: (raw_string) @s) (unary_expression (raw_string) @s)
  (binary_expression (raw_string) @s) (command name: (_) @c argument: (raw_string) @s)
  (unset_command [(raw_string) (string)] @v) (declaration_command [(raw_string) (string)] @v)
  (command name: (_) @let) @run]
 (#string-match? @v "^[A-Za-z_]\\w*\\[.*([$]\\(|`)")
 (#name? @let "let" "test" "[" "read" "printf" "declare" "typeset" "local" "unset" "wait")
 (#arg? @run "*" "^[A-Za-z_]\\w*\\[.*([$]\\(|`)")
 (#not-name? @c "awk" "gawk" "mawk" "nawk" "sed" "grep" "echo")
 (#match? @s "^'[A-Za-z_]\\w*\\[.*([$]\\(|`)")
 (#rule! "sh.exec.arith-text" critical "code-execution" "a text that runs commands in arithmetic"))

((command name: (_) @c . argument: (_) @text) @hit
 (#name? @c "trap")
 (#not-match? @text "^(-|''|\"\"|-[lp]|[0-9A-Z]+)$")
 (#embedded! @text "shell")
 (#rule! "sh.exec.trap" medium "code-execution" "runs commands at a signal or at the end"))

([(command name: (_) @c argument: (concatenation [(raw_string) (string)] @text))
  (command name: (_) @c argument: (word))]
 (#name? @c "alias")
 (#embedded! @text "shell")
 (#rule! "sh.exec.alias" medium "hidden" "gives a command another meaning"))

((function_definition name: (word) @n) @hit
 (#any-of? @n "ls" "cd" "echo" "cat" "grep" "pwd" "sudo" "rm" "cp" "mv" "find" "head" "tail" "test"
  "true" "false" "printf" "source" "exit" "ssh" "git" "su" "passwd" "kill" "ps" "which" "command"
  "builtin" "eval" "exec" "set" "unset" "export" "read" "return" "trap" "curl" "sh" "bash" "python3"
  "less" "more" "date" "sleep" "wc" "sort" "env" "man" "vim" "nano" "tee" "touch" "mkdir" "ln" "dd"
  "perl" "ruby" "php" "gcc" "wget" "nc" "scp" "rsync" "crontab" "systemctl" "mount" "umount" "tar"
  "apt-get" "apt" "pip" "npm" "gpg" "openssl" "ping" "dig" "docker" "kubectl" "reboot" "shutdown"
  "useradd" "pkill" "killall" "mysql" "psql" "shred" "nohup" "command_not_found_handle"
  "command_not_found_handler")
 (#rule! "sh.exec.shadow" high "hidden" "replaces a command with a function of its name"))

((variable_assignment name: (subscript name: (variable_name) @v)) @hit
 (#any-of? @v "BASH_CMDS" "BASH_ALIASES")
 (#rule! "sh.exec.rebind-table" critical "hidden" "binds the name of a command to other code"))

((command name: (_) @c) @hit
 (#name? @c "hash" "enable" "complete" "compgen" "bind" "mapfile" "readarray")
 (#arg? @hit "*" "^-[a-zA-Z]*[pfCx]$")
 (#rule! "sh.exec.rebind" critical "hidden" "binds a name, a key or a callback to other code"))

; ---- programs that run others ----

((command name: (_) @c) @hit
 (#name? @c "awk" "gawk" "mawk" "nawk")
 (#arg? @hit "*" "\\bsystem\\s*\\(|\\|\\s*&?\\s*getline|\\|&|/inet[46]?/|print[f]?\\b(?:[^;{}\\n\"|]++|\"(?:[^\"\\\\]++|\\\\.)*+\"|\\|\\|)*+\\|(?!\\|)|@load|@include")
 (#rule! "sh.exec.awk" critical "code-execution" "awk program starts commands or connections"))

((command name: (_) @c) @hit
 (#name? @c "awk" "gawk" "mawk" "nawk")
 (#arg? @hit "*" "print[f]?\\b(?:[^;{}\\n\">()]++|\"(?:[^\"\\\\]++|\\\\.)*+\"|(?<p>\\((?:[^()\"]++|\"(?:[^\"\\\\]++|\\\\.)*+\"|(?&p))*+\\)))*+>(?!=)(?!>?\\s*\"/dev/std(out|err)\")|\\bgetline\\s*[\\w$\\[\\]]*\\s*<(?!\\s*\"-\")|^inplace$|^--(dump-variables|pretty-print|profile)")
 (#rule! "sh.file.awk-write" high "file-write" "awk program opens files"))

((command name: (_) @c) @hit
 (#name? @c "awk" "gawk" "mawk" "nawk" "sed" "jq")
 (#arg? @hit "*" "^-f|^--(file|from-file|exec|load|include)|^-[li]$")
 (#rule! "sh.exec.program-file" medium "code-execution" "runs a program that is not shown here"))

((command name: (_) @c) @hit
 (#name? @c "sed" "gsed")
 (#sed? @hit "runs")
 (#rule! "sh.exec.sed" critical "code-execution" "sed script starts commands"))

((command name: (_) @c) @hit
 (#name? @c "sed" "gsed")
 (#sed? @hit "writes")
 (#rule! "sh.file.sed-write" high "file-write" "sed script writes files"))

((command name: (_) @c) @hit
 (#name? @c "find" "fd" "fdfind")
 (#arg? @hit "*" "^-(exec|execdir|ok|okdir|x|X)$|^--exec")
 (#rule! "sh.exec.find-exec" high "process" "runs a command for each file found"))

((command name: (_) @c) @hit
 (#name? @c "xargs" "parallel")
 (#arg? @hit "*" "^(.*/)?(ba|z|da|k|a)?sh$|^(.*/)?(python3?|perl|ruby|node|eval)$")
 (#rule! "sh.exec.xargs" critical "code-execution" "turns its input into commands"))

; options that name a program to run, also shortened
([(command name: (_) @c) @run (command name: (_) @sort) @compress]
 (#name? @c "tar" "bsdtar" "rsync" "ssh" "scp" "sftp" "zip" "split" "sort" "env" "wget" "cpio" "nmap"
  "sqlite3" "rg" "man" "pip" "apt" "apt-get" "dpkg" "ip" "capsh" "mysql" "psql")
 (#arg? @run "*" "^--(checkpoint-a|to-c|use-c|info-s|new-volume-s|rsh|rsync-p|unzip-c|filt|compress-p|use-ask|split-s)|^--(script|pre|pager)\\b|(?i)(proxy|local|knownhosts)command|^-TT$|^[.](shell|system)\\b|^\\\\!|Pre-Invoke")
 (#name? @sort "sort")
 (#arg? @compress "*" "^--co[a-z-]*(=|$)")
 (#rule! "sh.exec.option" critical "code-execution" "an option names a program to run"))

((command name: (_) @c) @hit
 (#name? @c "tar" "bsdtar" "rsync" "env")
 (#arg? @hit "*" "^-I$|^-S|^-e$|^-F$")
 (#rule! "sh.exec.option-short" critical "code-execution" "an option names a program to run"))

((command name: (_) @c) @hit
 (#name? @c "less" "more" "man" "zless" "bat" "ag" "ack")
 (#arg? @hit "*" "^[+].|^-[PHkoO]$|^-[PHoO].|^--(pager|html|lesskey|log-file|LOG-FILE)|^!")
 (#rule! "sh.exec.pager" high "code-execution" "makes a pager run a command or write a file"))

; ---- environment ----

((variable_assignment name: (variable_name) @v) @hit
 (#any-of? @v "LD_PRELOAD" "LD_LIBRARY_PATH" "LD_AUDIT" "DYLD_INSERT_LIBRARIES" "DYLD_LIBRARY_PATH"
  "PYTHONPATH" "PYTHONSTARTUP" "PYTHONHOME" "NODE_OPTIONS" "NODE_PATH" "PERL5LIB" "PERL5OPT" "RUBYOPT"
  "RUBYLIB" "BASH_ENV" "ENV" "JAVA_TOOL_OPTIONS" "GCONV_PATH" "GIT_SSH_COMMAND" "GIT_PROXY_COMMAND"
  "GIT_EXTERNAL_DIFF" "PROMPT_COMMAND" "PS0" "PS4" "LESSOPEN" "LESSCLOSE")
 (#rule! "sh.env.loader" critical "code-execution" "makes other programs load this code"))

((command name: (_) @c) @hit
 (#name? @c "env")
 (#arg? @hit "*" "^(LD_|DYLD_|PYTHON|NODE_|PERL5|RUBY|BASH_ENV=|ENV=|PATH=|GIT_|PAGER=|PROMPT_COMMAND=|BASH_FUNC)|=\\s*\\(\\)\\s*\\{")
 (#rule! "sh.env.loader-argument" critical "code-execution" "makes other programs load this code"))

((variable_assignment name: (variable_name) @v) @hit
 (#any-of? @v "PATH" "CDPATH" "EXECIGNORE" "GIT_SSH" "GIT_PAGER" "GIT_EDITOR" "GIT_ASKPASS" "PAGER"
  "MANPAGER" "EDITOR" "VISUAL" "BROWSER" "SHELLOPTS" "BASHOPTS" "SSH_ASKPASS"
  "SUDO_ASKPASS" "TAR_OPTIONS" "RSYNC_RSH" "MAKEFLAGS" "SHELL" "BASH_LOADABLES_PATH")
 (#rule! "sh.env.hook" high "code-execution" "sets a variable that decides what programs run"))

((command name: (_) @c) @hit
 (#name? @c "read" "printf" "mapfile" "readarray" "getopts" "declare" "typeset" "export" "unset")
 (#arg? @hit "*" "^(PATH|LD_[A-Z_]+|BASH_ENV|ENV|PROMPT_COMMAND|PS4|SHELLOPTS|PYTHON[A-Z]+|NODE_OPTIONS)(=|$)")
 (#rule! "sh.env.set" high "code-execution" "sets a variable that decides what programs run"))

; language and clock are nobody's secret
([(declaration_command "export") @export (declaration_command (word) @w)]
 (#not-match? @export "^export(\\s+(LANG|LANGUAGE|LC_[A-Z]+|TZ)=[\\w.@+-]+(/[\\w+-]+)*)+$")
 (#match? @w "^-[a-zA-Z]*[px]")
 (#rule! "sh.env.export" medium "environment" "changes or prints the environment"))

((command name: (_) @c) @hit
 (#name? @c "printenv" "env" "set" "declare" "typeset" "export")
 (#no-arg? @hit "0")
 (#rule! "sh.env.read" medium "environment" "reads the environment"))

((command name: (_) @c) @hit
 (#name? @c "jq" "awk" "gawk" "mawk" "nawk" "gojq" "yq")
 (#arg? @hit "*" "(^|[^.\"'\\w])env([^\\w\"':]|$)|[$]ENV\\b|\\bENVIRON\\b|\\bPROCINFO\\b")
 (#rule! "sh.env.program" medium "environment" "reads the environment"))

; ---- files ----

((command name: (_) @c) @hit
 (#name? @c "rm" "unlink" "rmdir" "trash" "trash-put")
 (#rule! "sh.file.rm" high "file-delete" "deletes files"))

((command name: (_) @c) @hit
 (#name? @c "mv")
 (#rule! "sh.file.mv" high "file-write" "moves or renames files"))

; tee to the standard streams writes no file
([(command name: (_) @c) (command name: (_) @tee) @file (command name: (_) @tee) @unknown]
 (#name? @tee "tee")
 (#arg? @file "*" "^(?!(-a|-i|-p|-ai|-ia|--|--append|--ignore-interrupts|--output-error.*)$)(?!/dev/(null|stdout|stderr|fd/[0-9]+)$)")
 (#dynamic-arg? @unknown "*")
 (#name? @c "cp" "touch" "mkdir" "ln" "link" "install" "truncate" "split" "csplit" "mktemp"
  "mkfifo" "mknod" "fallocate" "sponge" "patch" "dos2unix" "unix2dos" "logger" "tempfile" "convert"
  "magick" "ffmpeg" "pandoc" "wall" "write" "sync")
 (#not-name? @c "<function>")
 (#rule! "sh.file.write" high "file-write" "makes or changes files"))

((command name: (_) @c) @hit
 (#name? @c "tar" "bsdtar" "unzip" "zip" "gzip" "gunzip" "bzip2" "bunzip2" "xz" "unxz" "zstd" "unzstd"
  "lz4" "7z" "7za" "unrar" "rar" "cpio" "ar" "pax" "unar" "compress" "uncompress")
 (#not-name? @c "<function>")
 (#not-arg? @hit "*" "^-[a-z0-9]*c$|^-[a-z]*cd$|^--stdout$|^--to-stdout$")
 (#rule! "sh.file.archive" high "file-write" "packs or unpacks files"))

([(file_redirect [">" ">>" "&>" "&>>" ">|"] destination: (_) @d)
  (file_redirect ">&" destination: [(word) (string) (raw_string) (concatenation) (ansi_c_string)] @d)]
 (#not-string? @d "/dev/null" "/dev/stdout" "/dev/stderr" "/dev/fd/1" "/dev/fd/2" "-")
 (#not-match? @d "^>\\(|^[0-9]+-?$|^&")
 (#rule! "sh.file.redirect" high "file-write" "writes a file"))

((command name: (_) @c) @hit
 (#name? @c "chmod" "setfacl" "chown" "chgrp" "chattr" "setcap" "setfattr" "chcon" "restorecon")
 (#rule! "sh.file.chmod" high "file-rights" "changes the rights or the owner of files"))

((command name: (_) @c) @hit
 (#name? @c "sed" "gsed" "perl" "ruby" "yq" "sd")
 (#arg? @hit "*" "^-[nErsuzp]*i|^--in-place")
 (#rule! "sh.file.in-place" high "file-write" "changes files in place"))

([(command name: (_) @c) @run (command name: (_) @sort) @cluster]
 (#name? @c "sort" "shuf" "tree" "diff" "iconv")
 (#arg? @run "*" "^-o|^--ou?t?p?u?t?(=|$)|^--output")
 (#name? @sort "sort" "shuf")
 (#arg? @cluster "*" "^-[a-jl-su-zA-RU-Z]*o")
 (#rule! "sh.file.output-option" high "file-write" "writes a file named by an option"))

; uniq IN OUT; the input may be -
([(command name: (_) @uniq) (command name: (_) @xxd)]
 (#name? @uniq "uniq")
 (#line? @uniq "^\\S+(?: (?:-[fsw] ?[0-9]+|-[^\\s-]\\S*|--\\S*))*+ (?:-(?= )|[^\\s-]\\S*)(?: (?:-[fsw] ?[0-9]+|-[^\\s-]\\S*|--\\S*))*+ [^\\s-]")
 (#name? @xxd "xxd")
 (#line? @xxd "^\\S+(?: (?:-[clgos] ?[0-9]+|-[^\\s-]\\S*|--\\S*))*+ (?:-(?= )|[^\\s-]\\S*)(?: (?:-[clgos] ?[0-9]+|-[^\\s-]\\S*|--\\S*))*+ [^\\s-]")
 (#rule! "sh.file.second-operand" high "file-write" "writes the file that its second operand names"))

((command name: (_) @c) @hit
 (#name? @c "find" "fd")
 (#arg? @hit "*" "^-(delete|fprint|fprint0|fprintf|fls)$")
 (#rule! "sh.file.find-delete" high "file-delete" "deletes or writes the files it finds"))

; keys and passwords; echo and printf only say the path, jq .env is a member of an object
((command name: (_) @c) @hit
 (#not-name? @c "echo" "printf" "basename" "dirname" ":")
 (#arg? @hit "*" "(/etc/\\S*(shadow|sudoers|krb5[.]keytab|ssl/private|ssh_host)|/proc/\\S*(environ|kcore|/mem$)|/[.]ssh/(?!known_hosts)|id_(rsa|dsa|ecdsa|ed25519)\\b|[.](aws|kube|docker|gnupg|azure|password-store|mozilla)(/|$)|[.](netrc|pgpass|git-credentials|npmrc|pypirc|my[.]cnf|[a-z]+_history|vault-token)$|/run/secrets/|google-chrome|wallet[.]dat|config/gcloud)|^(\\S*/)?[.]env([.][a-z]+)?$")
 (#not-line? @hit "^(?:jq|gojq|yq)(?: (?!-[a-zA-Z]*f|--from)-\\S+)*+ [.]env(?: (?:-|\\w[\\w/-]*[.](?:jsonl?|ya?ml)))*$")
 (#rule! "sh.secret.read" high "secrets" "reads keys, passwords or histories"))

; the same as it is written: behind a variable, or as the input
([(command name: (_) @c argument: (_) @a) (file_redirect "<" destination: (_) @a)]
 (#not-name? @c "echo" "printf" "basename" "dirname" ":")
 (#match? @a "^[^\\s']*(/etc/\\S*(shadow|sudoers)|/proc/\\S*(environ|/mem)|/[.](ssh|aws|kube|docker|gnupg|netrc|pgpass|[a-z]+_history)(/|\"?$)|/run/secrets/|id_(rsa|ed25519)|config/gcloud|(^|/)[.]env\"?$)")
 (#not-line? @c "^(?:jq|gojq|yq)(?: (?!-[a-zA-Z]*f|--from)-\\S+)*+ [.]env(?: (?:-|\\w[\\w/-]*[.](?:jsonl?|ya?ml)))*$")
 (#rule! "sh.secret.read-raw" high "secrets" "reads keys, passwords or histories"))

((command name: (_) @c) @hit
 (#name? @c "grep" "egrep" "rg" "ag" "ack" "strings")
 (#arg? @hit "*" "(?i)passw|secret|api.?key|token|private.key|credential")
 (#arg? @hit "*" "^(/|~)")
 (#rule! "sh.secret.search" high "secrets" "searches the system for passwords"))

([(command name: (_) @c) @run (file_redirect "<" destination: (_) @d)]
 (#not-name? @c "echo" "printf" "basename" "dirname" ":" "read")
 (#arg? @run "*" "^/(etc|proc|sys|root|boot|var/(log|lib|spool|run|mail)|run|dev/(zero|full))(/|$)")
 (#string-match? @d "^/(etc|proc|sys|root|boot|var|run|home)(/|$)|^~")
 (#rule! "sh.file.system-read" medium "file-read" "looks at files of the system"))

([(file_redirect [">" ">>" "&>" "&>>" ">|"] destination: (_) @d) (command name: (_) @c) @run]
 (#name? @c "tee" "cp" "mv" "install" "ln" "touch" "mkdir" "truncate" "unlink" "patch")
 (#arg? @run "*" "^/(etc|boot|bin|sbin|lib|lib64|usr|root|proc|sys|var/spool)/")
 (#string-match? @d "^/(etc|proc|sys|boot|bin|sbin|lib|lib64|usr|root|var/spool)/")
 (#rule! "sh.file.system-write" critical "persistence" "changes files of the system"))

; ---- stays after the run ----

([(file_redirect [">" ">>" "&>" "&>>" ">|"] destination: (_) @d) (command name: (_) @c) @run]
 (#name? @c "tee" "cp" "mv" "install" "ln" "touch" "mkdir" "sed" "chmod" "patch" "vim" "nano" "rsync")
 (#arg? @run "*" "[.](bashrc|bash_profile|bash_login|bash_aliases|profile|zshrc|zshenv|zprofile|xinitrc|gitconfig)$|authorized_keys$|autostart|[.]git/hooks|/cron|/systemd/|rc[.]local|init[.]d|profile[.]d|sitecustomize")
 (#match? @d "[.](bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|xinitrc|xprofile|vimrc|gitconfig|inputrc)|authorized_keys|[.]ssh/|autostart|[.]git/hooks|/cron|systemd|rc[.]local|init[.]d|profile[.]d|sitecustomize")
 (#rule! "sh.persist.startup" critical "persistence" "changes a file that others run later"))

((command name: (_) @c) @hit
 (#name? @c "crontab" "at" "batch" "atrm" "anacron" "launchctl" "schtasks")
 (#not-name? @c "<function>")
 (#rule! "sh.persist.schedule" critical "persistence" "runs commands later"))

; ---- network ----

((command name: (_) @c) @hit
 (#name? @c "curl" "wget" "fetch" "aria2c" "lynx" "w3m" "links" "elinks" "http" "https" "xh" "axel"
  "httpie" "GET" "POST" "yt-dlp" "youtube-dl" "gh" "hub" "glab")
 (#not-name? @c "<function>")
 (#rule! "sh.net.fetch" high "network" "talks to the network"))

((command name: (_) @c) @hit
 (#not-name? @c "echo" "printf")
 (#arg? @hit "*" "169[.]254[.]169[.]254|metadata[.]google|100[.]100[.]100[.]200|fd00:ec2::254|docker[.]sock|containerd[.]sock")
 (#rule! "sh.net.metadata" critical "breakout" "asks the host or its cloud for rights"))

([(pipeline
   [(command name: (_) @sh) (redirected_statement body: (command name: (_) @sh))
    (redirected_statement body: (pipeline (command name: (_) @sh)))]
   [(command name: (_) @net) (redirected_statement body: (command name: (_) @net))])
  (command name: (_) @c) @run]
 (#name? @sh "sh" "bash" "dash" "zsh" "ksh" "ash" "python3" "python" "perl")
 (#name? @net "nc" "ncat" "netcat" "socat" "telnet" "openssl" "curl" "ssh")
 (#name? @c "nc" "ncat" "netcat" "nc.openbsd" "nc.traditional" "socat" "cryptcat")
 (#arg? @run "*" "^-[a-z]*[ec]$|^--(exec|sh-exec|lua-exec)|(?i)^(exec|system|shell):")
 (#rule! "sh.net.reverse-shell" critical "breakout" "gives a shell to the network"))

((file_redirect destination: (_) @d) @hit
 (#match? @d "^[\"']?/+dev/+(tcp|udp)/")
 (#rule! "sh.net.dev-tcp" critical "network" "opens a network connection by a redirect"))

((command name: (_) @c) @hit
 (#name? @c "ssh" "scp" "sftp" "rsync" "ftp" "lftp" "tftp" "rsh" "rlogin" "mosh" "sshpass" "autossh"
  "ssh-keygen" "ssh-copy-id" "ssh-agent" "rclone" "smbclient" "mail" "mailx" "sendmail" "mutt"
  "msmtp" "wormhole" "ngrok" "cloudflared" "tor" "torsocks" "proxychains" "openvpn" "wg" "nc"
  "ncat" "netcat" "nc.openbsd" "nc.traditional" "socat" "telnet" "websocat" "cryptcat" "aws"
  "gcloud" "gsutil" "az" "doctl" "heroku" "terraform" "tofu" "ansible" "ansible-playbook" "pulumi"
  "flyctl" "s3cmd" "eksctl" "ping" "ping6" "nmap" "masscan" "dig" "nslookup" "host" "whois"
  "traceroute" "tracepath" "mtr" "arp" "arping" "tcpdump" "tshark" "ss" "netstat" "hping3" "fping"
  "drill" "iperf3" "nikto" "sqlmap" "hydra" "ntpdate" "avahi-browse")
 (#not-name? @c "<function>")
 (#rule! "sh.net.remote" high "network" "reaches or probes other machines"))

; ---- git ----

((command name: (_) @c) @hit
 (#name? @c "git")
 (#not-line? @hit "^git (--version|version|--help|help)$")
 (#rule! "sh.git.other" medium "file-write" "uses a git repository"))

((command name: (_) @c) @hit
 (#name? @c "git")
 (#arg? @hit "*" "^(push|clone|fetch|pull|remote|submodule|ls-remote|send-email|svn|lfs)$")
 (#rule! "sh.git.push" high "network" "talks to another repository"))

((command name: (_) @c) @hit
 (#name? @c "git")
 (#arg? @hit "*" "^--force|^-f$|^--mirror$|^--delete$|^--hard$|^-D$|^(reset|clean|filter-branch|filter-repo|gc|prune|restore|checkout|rebase|stash|rm|mv)$")
 (#rule! "sh.git.force" high "file-delete" "overwrites history or throws work away"))

((command name: (_) @c) @hit
 (#name? @c "git")
 (#arg? @hit "*" "(?i)^(-c)?(core[.](pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|pager[.]|alias[.]|diff[.]external|credential|sequence[.]editor|protocol[.]ext|filter[.]|gpg[.]program)|^ext::|^--(exec|upload-pack|receive-pack|config-env|exec-path)\\b")
 (#rule! "sh.git.exec" critical "code-execution" "makes git run a program"))

; ---- rights and system ----

((command name: (_) @c) @hit
 (#name? @c "sudo" "su" "doas" "pkexec" "runuser" "sudoedit" "gosu" "setpriv" "newgrp" "sg" "visudo"
  "useradd" "userdel" "usermod" "adduser" "deluser" "groupadd" "groupdel" "groupmod" "addgroup"
  "passwd" "chpasswd" "gpasswd" "chage" "chsh" "chfn" "vipw" "newusers")
 (#rule! "sh.priv.sudo" high "privilege" "acts as another user or changes accounts"))

((command name: (_) @c) @hit
 (#name? @c "apt" "apt-get" "aptitude" "dpkg" "yum" "dnf" "rpm" "zypper" "pacman" "apk" "snap" "flatpak"
  "brew" "port" "emerge" "nix" "nix-env" "nix-shell" "guix" "pip" "pip3" "npm" "yarn" "pnpm" "gem"
  "bundle" "composer" "conda" "mamba" "cpan" "easy_install" "luarocks" "opam" "cabal" "stack")
 (#not-name? @c "<function>")
 (#rule! "sh.sys.package" high "system" "installs or runs packages"))

((command name: (_) @c) @hit
 (#name? @c "systemctl" "service" "rc-service" "rc-update" "update-rc.d" "chkconfig" "initctl" "loginctl"
  "machinectl" "journalctl" "supervisorctl" "monit" "pm2" "httpd" "nginx" "apachectl" "sshd"
  "telnetd" "update-alternatives" "ldconfig" "iptables" "ip6tables" "nft" "ufw" "firewall-cmd"
  "ip" "ifconfig" "route" "tc" "brctl" "iw" "iwconfig" "nmcli" "ethtool" "ebtables" "ipset"
  "wpa_supplicant" "dhclient" "resolvectl")
 (#not-name? @c "<function>")
 (#rule! "sh.sys.service" high "system" "controls services or the network of the machine"))

((command name: (_) @c) @hit
 (#name? @c "mount" "umount" "swapon" "swapoff" "fusermount" "fusermount3" "pivot_root" "udisksctl"
  "mount.nfs" "mount.cifs" "sshfs" "bindfs" "e2fsck" "fsck" "insmod" "rmmod" "modprobe" "depmod"
  "kexec" "sysctl" "dmesg" "bpftool" "bpftrace" "perf" "setenforce" "aa-disable" "aa-complain" "kmod"
  "dkms" "grub-install" "update-grub" "efibootmgr")
 (#not-name? @c "<function>")
 (#rule! "sh.sys.kernel" critical "breakout" "changes the kernel or what is mounted"))

((command name: (_) @c) @hit
 (#name? @c "shutdown" "reboot" "halt" "poweroff" "init" "telinit" "pm-suspend" "rtcwake")
 (#not-name? @c "<function>")
 (#rule! "sh.sys.power" critical "system" "stops the machine"))

((command name: (_) @c) @hit
 (#name? @c "chroot" "unshare" "nsenter" "bwrap" "firejail" "setarch" "capsh" "systemd-nspawn"
  "runc" "crun" "newuidmap" "ctr" "crictl" "lxc-attach" "lxc" "proot" "docker" "podman" "nerdctl"
  "docker-compose" "kubectl" "helm" "buildah" "minikube" "k3s" "oc" "vagrant" "virsh"
  "qemu-system-x86_64" "VBoxManage" "incus" "multipass" "skopeo")
 (#not-name? @c "<function>")
 (#rule! "sh.sys.container" critical "breakout" "controls namespaces, containers or machines"))

((command name: (_) @c) @hit
 (#name? @c "date" "hwclock" "timedatectl" "hostnamectl" "localectl" "hostname" "domainname")
 (#arg? @hit "0" "^-s|^--set|^set-|^[a-z][a-z0-9.-]*$|^[0-9]{8,12}$")
 (#rule! "sh.sys.settings" high "system" "changes settings of the machine"))

((command name: (_) @c) @hit
 (#name? @c "ps" "top" "htop" "pgrep" "pidof" "pstree" "lsof" "fuser" "uname" "id" "whoami" "groups"
  "who" "w" "last" "users" "logname" "hostname" "hostnamectl" "uptime" "free" "df" "lsblk" "blkid"
  "lscpu" "lspci" "lsusb" "lsmod" "vmstat" "iostat" "nproc" "arch" "tty" "finger" "lastlog" "findmnt"
  "dmidecode" "mountpoint" "ulimit" "prlimit" "quota" "getcap" "getfacl" "lsattr" "readelf" "ldd"
  "nm" "objdump" "xclip" "xsel" "pbpaste" "pbcopy" "wl-paste" "scrot" "import" "xdotool" "history"
  "locate" "updatedb" "lsns" "ipcs" "sestatus" "timedatectl" "hwclock" "printenv" "compgen" "getconf"
  "locale" "getent" "umask" "jobs" "envsubst")
 (#not-name? @c "<function>")
 (#rule! "sh.sys.look" medium "system-read" "looks at the machine, its users or processes"))

; ---- processes, data, traces ----

((command name: (_) @c) @hit
 (#name? @c "kill" "pkill" "killall" "xkill" "skill" "renice" "taskset" "chrt" "ipcrm" "gdb" "strace"
  "ltrace" "lldb" "gcore" "rr" "valgrind" "uftrace" "reptyr" "frida")
 (#not-name? @c "<function>")
 (#rule! "sh.proc.kill" high "process" "stops, changes or looks into other processes"))

((command name: (_) @c) @hit
 (#name? @c "kill" "killall5" "pkill" "killall")
 (#match? @hit "\\s-(s\\s+)?\\S+\\s+(--\\s+)?-1\\s*$|killall5|\\s-[uU]\\b")
 (#rule! "sh.proc.kill-all" critical "process" "stops all processes"))

((command name: (_) @c) @hit
 (#name? @c "nohup" "setsid" "disown" "daemon" "coproc")
 (#not-name? @c "<function>")
 (#rule! "sh.proc.background" high "process" "leaves a process behind"))

((command name: (_) @c) @hit
 (#name? @c "mysql" "mysqldump" "mariadb" "psql" "pg_dump" "sqlite3" "redis-cli" "mongo" "mongosh"
  "mongodump" "dropdb" "createdb" "sqlcmd" "sqlplus" "clickhouse-client" "influx" "etcdctl"
  "ldapsearch" "openssl" "gpg" "gpg2" "age" "ccrypt" "mcrypt" "encfs" "gocryptfs")
 (#not-name? @c "<function>")
 (#rule! "sh.data.database" high "data" "works on a database or on encrypted data"))

([(command name: (_) @c) @run (unset_command (variable_name) @v) (unset_command (word) @flag)]
 (#name? @c "history")
 (#not-no-arg? @run "0")
 (#match? @v "^(HIST|PATH$|PROMPT_COMMAND$)")
 (#match? @flag "^-[a-z]*f")
 (#rule! "sh.hide.traces" high "hidden" "hides what was run or what a name means"))

; ---- harmless, and unknown ----

((command name: (_) @c) @hit
 (#name? @c "date" "shuf" "cal" "ncal" "uuidgen" "mcookie")
 (#rule! "sh.low.state" low "state" "reads the clock or random numbers"))

; none of the commands above and none of those that only compute, print or read what they are given
((command name: (_) @c) @hit
 (#not-dynamic? @c)
 (#not-name? @c
  "!" "." "/lib/ld-linux.so.2" "/lib/ld-musl-x86_64.so.1"
  "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "/lib64/ld-linux-x86-64.so.2" "7z" "7za" ":"
  "<function>" "GET" "POST" "R" "Rscript" "VBoxManage" "[" "aa-complain" "aa-disable" "ack"
  "addgroup" "adduser" "ag" "age" "alias" "anacron" "ansible" "ansible-playbook" "ant" "apachectl"
  "apk" "apropos" "apt" "apt-get" "aptitude" "ar" "arch" "aria2c" "arp" "arping" "as" "ash"
  "aspell" "at" "atrm" "autossh" "avahi-browse" "awk" "aws" "axel" "az" "b2sum" "badblocks"
  "banner" "base32" "base64" "basename" "basenc" "bash" "bat" "batch" "bazel" "bc" "bg" "bind"
  "bindfs" "blkdiscard" "blkid" "bpftool" "bpftrace" "brctl" "break" "brew" "bsdtar" "buildah"
  "builtin" "bun" "bundle" "bunzip2" "busybox" "bwrap" "bzcat" "bzip2" "c++" "cabal" "cal"
  "caller" "capsh" "cargo" "cat" "cc" "ccrypt" "cd" "cfdisk" "chage" "chattr" "chcon" "chfn"
  "chgrp" "chkconfig" "chmod" "chown" "chpasswd" "chroot" "chrt" "chsh" "cksum" "clang" "clang++"
  "clear" "clickhouse-client" "cloudflared" "cmake" "cmp" "code" "colrm" "column" "comm" "command"
  "compgen" "complete" "composer" "compress" "conda" "continue" "convert" "coproc" "cowsay"
  "cowthink" "cp" "cpan" "cpio" "crc32" "createdb" "crictl" "crontab" "crun" "cryptcat"
  "cryptsetup" "csh" "csplit" "csvcut" "csvlook" "csvtool" "ctr" "curl" "cut" "daemon" "daemonize"
  "dash" "datamash" "date" "dc" "dcfldd" "dd" "ddrescue" "debugfs" "declare" "deluser" "deno"
  "depmod" "df" "dhclient" "diff" "diff3" "dig" "dir" "dircolors" "dirname" "dirs" "disown" "dkms"
  "dmesg" "dmidecode" "dnf" "do" "doas" "docker" "docker-compose" "doctl" "domainname" "done"
  "dos2unix" "dotnet" "dpkg" "drill" "dropdb" "dtach" "du" "e2fsck" "easy_install" "ebtables"
  "echo" "ed" "efibootmgr" "egrep" "eksctl" "elif" "elinks" "elixir" "else" "emacs" "emerge"
  "enable" "encfs" "entr" "env" "envsubst" "erl" "errno" "esac" "etcdctl" "ethtool" "eval" "ex"
  "exa" "exec" "exit" "expand" "expect" "export" "expr" "eza" "factor" "fallocate" "false" "fc"
  "fd" "fdfind" "fdisk" "fetch" "ffmpeg" "fg" "fgrep" "fi" "figlet" "file" "find" "findmnt"
  "finger" "firejail" "firewall-cmd" "fish" "flatpak" "flock" "flyctl" "fmt" "fold" "for"
  "fortune" "fping" "free" "frida" "fsck" "ftp" "fuser" "fusermount" "fusermount3" "g++" "gawk"
  "gcc" "gcloud" "gcore" "gdb" "gdisk" "gem" "getcap" "getconf" "getent" "getfacl" "getopt"
  "getopts" "gettext" "gh" "ghci" "git" "glab" "gmake" "gnuplot" "go" "gocryptfs" "gojq" "gosu"
  "gpasswd" "gpg" "gpg2" "gradle" "grep" "groovy" "groupadd" "groupdel" "groupmod" "groups"
  "grub-install" "gsed" "gsutil" "guile" "guix" "gunzip" "gzip" "halt" "hash" "hd" "hdparm" "head"
  "helm" "help" "heroku" "hexdump" "history" "host" "hostname" "hostnamectl" "hping3" "htop"
  "http" "httpd" "httpie" "https" "hub" "hwclock" "hydra" "iconv" "id" "if" "ifconfig" "import"
  "incus" "influx" "info" "init" "initctl" "insmod" "install" "iostat" "ip" "ip6tables" "ipcrm"
  "ipcs" "iperf3" "ipset" "iptables" "ipython" "iw" "iwconfig" "java" "javac" "jobs" "joe" "join"
  "journalctl" "jq" "jshell" "julia" "jupyter" "just" "k3s" "kexec" "kill" "killall" "killall5"
  "kmod" "ksh" "kubectl" "last" "lastlog" "launchctl" "ld" "ldapsearch" "ldconfig" "ldd" "less"
  "let" "lftp" "link" "links" "lldb" "ln" "local" "locale" "localectl" "locate" "logger"
  "loginctl" "logname" "logout" "lolcat" "look" "losetup" "ls" "lsattr" "lsblk" "lscpu" "lsmod"
  "lsns" "lsof" "lspci" "lsusb" "ltrace" "lua" "luajit" "luarocks" "lvreduce" "lvremove" "lxc"
  "lxc-attach" "lynx" "lz4" "m4" "machinectl" "magick" "mail" "mailx" "make" "mamba" "man"
  "mapfile" "mariadb" "masscan" "mawk" "mcedit" "mcookie" "mcrypt" "md5sum" "mdadm" "meson"
  "minikube" "mkdir" "mkdosfs" "mke2fs" "mkfifo" "mkfs" "mkfs.*" "mknod" "mkntfs" "mksh" "mkswap"
  "mktemp" "modprobe" "mongo" "mongodump" "mongosh" "monit" "more" "mosh" "mount" "mount.cifs"
  "mount.nfs" "mountpoint" "msmtp" "mtr" "multipass" "mutt" "mv" "mvn" "mysql" "mysqldump" "nano"
  "nasm" "nawk" "nc" "nc.openbsd" "nc.traditional" "ncal" "ncat" "nerdctl" "netcat" "netstat"
  "newfs" "newgrp" "newuidmap" "newusers" "nft" "nginx" "ngrok" "nice" "nikto" "ninja" "nix"
  "nix-env" "nix-shell" "nl" "nm" "nmap" "nmcli" "node" "nodejs" "nohup" "npm" "nproc" "npx"
  "nsenter" "nslookup" "ntpdate" "numfmt" "nvim" "nvme" "objdump" "oc" "octave" "od" "opam"
  "openssl" "openvpn" "osascript" "pacman" "pandoc" "parallel" "parted" "passwd" "paste" "patch"
  "pathchk" "pax" "pbcopy" "pbpaste" "perf" "perl" "pg_dump" "pgrep" "php" "pico" "pidof" "ping"
  "ping6" "pip" "pip3" "pipx" "pivot_root" "pkexec" "pkill" "pm-suspend" "pm2" "pnpm" "podman"
  "poetry" "popd" "port" "poweroff" "pr" "prename" "printenv" "printf" "prlimit" "proot"
  "proxychains" "ps" "psql" "pstree" "ptx" "pulumi" "pushd" "pvremove" "pwd" "pwsh" "pypy3"
  "pytest" "python" "python2" "python3" "qemu-system-x86_64" "quota" "rake" "rar" "rbash"
  "rc-service" "rc-update" "rclone" "read" "readarray" "readelf" "readlink" "readonly" "realpath"
  "reboot" "redis-cli" "rename" "renice" "reptyr" "reset" "resize2fs" "resolvectl" "restorecon"
  "return" "rev" "rg" "rlogin" "rm" "rmdir" "rmmod" "rot13" "route" "rpm" "rr" "rsh" "rsync"
  "rtcwake" "ruby" "run-parts" "runc" "runuser" "rustc" "s3cmd" "schtasks" "scp" "screen" "script"
  "scrot" "scrub" "sd" "sed" "sendmail" "seq" "service" "sestatus" "set" "setarch" "setcap"
  "setenforce" "setfacl" "setfattr" "setpriv" "setsid" "sfdisk" "sftp" "sg" "sgdisk" "sh"
  "sha1sum" "sha224sum" "sha256sum" "sha384sum" "sha512sum" "shift" "shopt" "shred" "shuf"
  "shutdown" "skill" "skopeo" "sl" "sleep" "smbclient" "snap" "socat" "sort" "source" "spell"
  "split" "sponge" "sqlcmd" "sqlite3" "sqlmap" "sqlplus" "srm" "ss" "ssh" "ssh-agent"
  "ssh-copy-id" "ssh-keygen" "sshd" "sshfs" "sshpass" "stack" "start-stop-daemon" "stat" "stdbuf"
  "strace" "strings" "stty" "su" "sudo" "sudoedit" "sum" "supervisorctl" "suspend" "swapoff"
  "swapon" "swift" "sync" "sysctl" "systemctl" "systemd-nspawn" "systemd-run" "tac" "tail" "tar"
  "taskset" "tc" "tcc" "tclsh" "tcpdump" "tcsh" "tee" "telinit" "telnet" "telnetd" "tempfile"
  "terraform" "test" "tftp" "then" "time" "timedatectl" "timeout" "times" "tmux" "tofu" "toilet"
  "top" "tor" "torsocks" "touch" "tox" "toybox" "tput" "tr" "tracepath" "traceroute" "trap"
  "trash" "trash-put" "tree" "true" "truncate" "ts" "ts-node" "tshark" "tsort" "tsx" "tty"
  "tune2fs" "type" "typeset" "udisksctl" "uftrace" "ufw" "ulimit" "umask" "umount" "uname" "unar"
  "unbuffer" "uncompress" "unexpand" "uniq" "units" "unix2dos" "unlink" "unrar" "unset" "unshare"
  "until" "unxz" "unzip" "unzstd" "update-alternatives" "update-grub" "update-rc.d" "updatedb"
  "uptime" "useradd" "userdel" "usermod" "users" "uuidgen" "uv" "uvx" "vagrant" "valgrind" "vdir"
  "vgremove" "vi" "view" "vim" "vipw" "virsh" "visudo" "vmstat" "w" "w3m" "wait" "wall" "watch"
  "wc" "websocat" "wg" "wget" "whatis" "whereis" "which" "while" "who" "whoami" "whois" "wipe"
  "wipefs" "wl-paste" "wormhole" "wpa_supplicant" "write" "xargs" "xclip" "xdotool" "xh" "xkill"
  "xsel" "xsv" "xxd" "xz" "xzcat" "yarn" "yes" "youtube-dl" "yq" "yt-dlp" "yum" "zcat" "zfs"
  "zgrep" "zip" "zless" "zpool" "zsh" "zstd" "zypper" "{" "}")
 (#rule! "sh.command.unknown" medium "unknown" "starts a program that is not known"))
