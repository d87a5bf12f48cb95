"""More states, in the form that `terminal_states.py` describes."""

MORE_STATES = r"""
== notes
Count the open items (- [ ]) in todo.md.
grep -c '^- \[ \]' todo.md
pipe | grep '^- \[ \]' todo.md | wc -l
fixed | grep -cF -- '- [ ]' todo.md
pattern | grep -c '^- \[x\]' todo.md
quotes | grep -c "^- \[ \]" todo.md
pattern | grep -c '^- ' todo.md
bracket | grep -c '^- [ ]' todo.md

Mark all items of todo.md as done.
sed -i 's/- \[ \]/- [x]/' todo.md
other_tool | perl -pi -e 's/- \[ \]/- [x]/' todo.md
value | sed -i 's/- \[ \]/- [X]/' todo.md
direction | sed -i 's/- \[x\]/- [ ]/' todo.md
flag | sed -i 's/- \[ \]/- [x]/g' todo.md
path | sed -i 's/- \[ \]/- [x]/' ideas.md
unescaped | sed -i 's/- [ ]/- [x]/' todo.md

Print the headings of all notes in journal.
grep -h '^#' journal/*.md
other_tool | cat journal/*.md | grep '^#'
other_tool | awk '/^#/' journal/*.md
dropped_option | grep '^#' journal/*.md
pattern | grep -h '^# ' journal/*.md
glob | grep -h '^#' journal/2024*.md

Which name is in names.txt most often? Print the three most frequent with counts.
sort names.txt | uniq -c | sort -rn | head -n 3
options | sort names.txt | uniq -c | sort -n -r | head -3
missing_sort | uniq -c names.txt | sort -rn | head -n 3
direction | sort names.txt | uniq -c | sort -n | head -n 3
range | sort names.txt | uniq -c | sort -rn | head -n 2
case | sort -f names.txt | uniq -ci | sort -rn | head -n 3

Move the notes of 2023 from journal to archive.
mv journal/2023-*.md archive/
glob | mv journal/2023* archive
other_tool | find journal -name '2023-*.md' -exec mv {} archive/ \;
glob | mv journal/202*.md archive/
other_command | cp journal/2023-*.md archive/
quoted_glob | mv 'journal/2023-*.md' archive/
loop | for f in journal/2023-*.md; do mv "$f" archive/; done

Show the file with the name "draft one.txt".
cat 'draft one.txt'
quotes | cat "draft one.txt"
quotes | cat draft\ one.txt
unquoted | cat draft one.txt
glob | cat draft*.txt
redirect | cat < 'draft one.txt'
path | cat 'draft two.txt'

Add the line "Total: $PRICE" (as it stands, with the dollar sign) to price.txt.
echo 'Total: $PRICE' >> price.txt
expansion | echo "Total: $PRICE" >> price.txt
quotes | echo "Total: \$PRICE" >> price.txt
other_tool | printf '%s\n' 'Total: $PRICE' >> price.txt
overwrite | echo 'Total: $PRICE' > price.txt
heredoc | cat >> price.txt <<'EOF'⏎Total: $PRICE⏎EOF
heredoc | cat >> price.txt <<EOF⏎Total: $PRICE⏎EOF

Find the prices below 20 dollars in price.txt.
awk '{gsub(/\$/, "", $2); if ($2 < 20) print $1}' price.txt
pipe | tr -d '$' < price.txt | awk '$2 < 20 {print $1}'
operator | tr -d '$' < price.txt | awk '$2 <= 20 {print $1}'
field | tr -d '$' < price.txt | awk '$2 < 20 {print $2}'
unstripped | awk '$2 < 20 {print $1}' price.txt
other_tool | awk -F '[ $]+' '$2 < 20 {print $1}' price.txt

Print names.txt in lower case, every name once.
tr A-Z a-z < names.txt | sort -u
other_tool | awk '{print tolower($0)}' names.txt | sort -u
options | tr '[:upper:]' '[:lower:]' < names.txt | sort | uniq
order | sort -u names.txt | tr A-Z a-z
direction | tr a-z A-Z < names.txt | sort -u
missing_sort | tr A-Z a-z < names.txt | uniq
other_tool | sed 's/.*/\L&/' names.txt | sort -u

How many notes are in journal?
ls journal | wc -l
other_tool | find journal -type f | wc -l
glob | ls journal/*.md | wc -l
options | ls -a journal | wc -l
options | ls -l journal | wc -l
range | ls journal/2024*.md | wc -l

Put all notes of journal, in the order of their names, into one file all.md.
cat journal/*.md > all.md
append | cat journal/*.md >> all.md
loop | for f in journal/*.md; do cat "$f"; done > all.md
order | cat $(ls -r journal/*.md) > all.md
glob | cat journal/2024*.md > all.md
other_tool | awk 1 journal/*.md > all.md
path | cat *.md > all.md

== numbers
Sort numbers.txt by value and print the three smallest.
sort -n numbers.txt | head -n 3
options | sort --numeric-sort numbers.txt | head -3
numeric | sort numbers.txt | head -n 3
other_end | sort -n numbers.txt | tail -n 3
direction | sort -rn numbers.txt | tail -n 3
unique | sort -nu numbers.txt | head -n 3
range | sort -n numbers.txt | head -n 2

Print the sum of the numbers in numbers.txt.
awk '{s += $1} END {print s}' numbers.txt
other_tool | paste -sd+ numbers.txt | bc
other_tool | python3 -c "print(sum(int(line) for line in open('numbers.txt')))"
mean | awk '{s += $1} END {print s / NR}' numbers.txt
path | awk '{s += $1} END {print s}' more/numbers.txt
loop | s=0; while read -r n; do s=$((s + n)); done < numbers.txt; echo $s
subshell | (s=0; while read -r n; do s=$((s + n)); done < numbers.txt; echo $s)

Print the largest number in numbers.txt.
sort -n numbers.txt | tail -n 1
other_tool | awk '$1 > m {m = $1} END {print m}' numbers.txt
pipe | sort -rn numbers.txt | head -n 1
numeric | sort numbers.txt | tail -n 1
other_end | sort -n numbers.txt | head -n 1
options | sort -n numbers.txt | tail -1

Which cities are in temps.tsv? Print each once, sorted, without the header.
tail -n +2 temps.tsv | cut -f1 | sort -u
other_tool | awk 'NR > 1 {print $1}' temps.tsv | sort -u
pipe | cut -f1 temps.tsv | sed 1d | sort | uniq
header | cut -f1 temps.tsv | sort -u
field | tail -n +2 temps.tsv | cut -f2 | sort -u
delimiter | tail -n +2 temps.tsv | cut -d' ' -f1 | sort -u

Print the lines of temps.tsv with a temperature below zero.
awk -F'\t' 'NR > 1 && $2 < 0' temps.tsv
other_tool | grep -P '^\S+\t-' temps.tsv
options | awk 'NR > 1 && $2 < 0' temps.tsv
operator | awk -F'\t' 'NR > 1 && $2 <= 0' temps.tsv
field | awk -F'\t' 'NR > 1 && $3 < 0' temps.tsv
header | awk -F'\t' '$2 < 0' temps.tsv

Print the mean temperature of temps.tsv with two decimals.
awk 'NR > 1 {s += $2} END {printf "%.2f\n", s / (NR - 1)}' temps.tsv
count | awk 'NR > 1 {s += $2} END {printf "%.2f\n", s / NR}' temps.tsv
pipe | tail -n +2 temps.tsv | awk '{s += $2} END {printf "%.2f\n", s / NR}'
format | awk 'NR > 1 {s += $2} END {printf "%.1f\n", s / (NR - 1)}' temps.tsv
field | awk 'NR > 1 {s += $3} END {printf "%.2f\n", s / (NR - 1)}' temps.tsv
counter | awk 'NR > 1 {s += $2; n++} END {printf "%.2f\n", s / n}' temps.tsv

Print every second line of words.txt, beginning with the first.
awk 'NR % 2 == 1' words.txt
other_tool | sed -n '1~2p' words.txt
other_tool | sed 'n;d' words.txt
parity | awk 'NR % 2 == 0' words.txt
range | sed -n '2~2p' words.txt
shorter | awk 'NR % 2' words.txt

Print the second field of pairs.txt (separated by colons), sorted as numbers.
cut -d: -f2 pairs.txt | sort -n
other_tool | awk -F: '{print $2}' pairs.txt | sort -n
numeric | cut -d: -f2 pairs.txt | sort
field | cut -d: -f3 pairs.txt | sort -n
options | cut --delimiter=: --fields=2 pairs.txt | sort --numeric-sort
unique | cut -d: -f2 pairs.txt | sort -nu

Print the third column of matrix.txt.
cut -d' ' -f3 matrix.txt
other_tool | awk '{print $3}' matrix.txt
field | awk '{print $2}' matrix.txt
range | cut -d' ' -f3- matrix.txt
other_tool | while read -r a b c d; do echo "$c"; done < matrix.txt
order | cut -f3 -d' ' matrix.txt

Print the number of empty lines in more/blank.txt.
grep -c '^$' more/blank.txt
other_tool | awk '/^$/ {n++} END {print n + 0}' more/blank.txt
pattern | grep -c '^ *$' more/blank.txt
inverted | grep -c . more/blank.txt
inverted | grep -vc . more/blank.txt
pattern | awk '!NF {n++} END {print n + 0}' more/blank.txt

Print words.txt backwards, the last line first.
tac words.txt
other_tool | sed '1!G;h;$!d' words.txt
other_tool | awk '{a[NR] = $0} END {for (i = NR; i; i--) print a[i]}' words.txt
direction | sort -r words.txt
other_command | rev words.txt
pipe | cat -n words.txt | sort -rn | cut -f2

Join the lines of words.txt with commas into one line.
paste -sd, words.txt
other_tool | awk '{printf "%s%s", sep, $0; sep = ","} END {print ""}' words.txt
trailing | tr '\n' ',' < words.txt
delimiter | paste -sd';' words.txt
options | paste -s -d , words.txt
other_tool | python3 -c "print(','.join(open('words.txt').read().split()))"

Put the words that start with a capital letter into capital.txt.
grep '^[A-Z]' words.txt > capital.txt
other_tool | awk '/^[A-Z]/' words.txt > capital.txt
pattern | grep '[A-Z]' words.txt > capital.txt
case | grep -i '^[A-Z]' words.txt > capital.txt
class | grep '^[[:upper:]]' words.txt > capital.txt
append | grep '^[A-Z]' words.txt >> capital.txt
inverted | grep -v '^[a-z]' words.txt > capital.txt

== release
Make the link current point to releases/v1.10.
ln -sfn releases/v1.10 current
joined | rm current && ln -s releases/v1.10 current
options | ln -s -f -n releases/v1.10 current
followed | ln -sf releases/v1.10 current
path | ln -sfn releases/v1.1 current
direction | ln -sfn current releases/v1.10
slash | ln -sfn releases/v1.10/ current
hard | ln -sfn ./releases/v1.10 current

Make deploy.sh and check.sh readable and executable by everybody, writable by the owner alone.
chmod 755 deploy.sh check.sh
symbolic | chmod u=rwx,go=rx deploy.sh check.sh
glob | chmod 755 *.sh
mode | chmod 644 deploy.sh check.sh
dropped_operand | chmod 755 deploy.sh
octal | chmod 0755 deploy.sh check.sh

Remove all .tmp files in tmp.
rm tmp/*.tmp
other_tool | find tmp -name '*.tmp' -delete
directory | (cd tmp && rm -f *.tmp)
glob | rm tmp/*.tmp*
glob | rm tmp/*
quoted_glob | rm 'tmp/*.tmp'
names | rm tmp/a.tmp tmp/b.tmp

List the releases, sorted by version number.
ls releases | sort -V
options | ls -v releases
numeric | ls releases
options | ls -1 releases | sort --version-sort
direction | ls releases | sort -rV
numeric | ls releases | sort -n

Print the content of all VERSION files under releases, in the order of the folders' names.
cat releases/*/VERSION
loop | for v in releases/*; do cat "$v/VERSION"; done
glob | cat releases/v1.1*/VERSION
other_tool | head -q -n 1 releases/*/VERSION
path | cat current/VERSION
other_tool | find releases -name VERSION | sort | xargs cat

Run the script of the current release with the argument start.
bash current/run.sh start
other_shell | sh current/run.sh start
direct | ./current/run.sh start
argument | bash current/run.sh stop
path | bash releases/v1.2/run.sh start
path | bash releases/v1.9/run.sh start
directory | cd current && bash run.sh start

Count the failed deployments in log/deploy.log.
grep -c FAIL log/deploy.log
other_tool | awk '$1 == "FAIL"' log/deploy.log | wc -l
inverted | grep -vc FAIL log/deploy.log
pattern | grep -c ok log/deploy.log
pipe | cut -d' ' -f1 log/deploy.log | grep -c FAIL
per_name | grep -o FAIL log/deploy.log | sort | uniq -c

Set HOSTS to 5 in config.env and show the file.
sed -i 's/^HOSTS=.*/HOSTS=5/' config.env && cat config.env
separate | sed -i 's/^HOSTS=.*/HOSTS=5/' config.env⏎cat config.env
order | cat config.env && sed -i 's/^HOSTS=.*/HOSTS=5/' config.env
value | sed -i 's/^HOSTS=.*/HOSTS=50/' config.env && cat config.env
shown_only | sed 's/^HOSTS=.*/HOSTS=5/' config.env
tee | sed 's/^HOSTS=.*/HOSTS=5/' config.env > t && mv t config.env && cat config.env

Make a release v2.0 as a copy of v1.10, with VERSION saying v2.0.0.
cp -r releases/v1.10 releases/v2.0⏎echo v2.0.0 > releases/v2.0/VERSION
joined | cp -r releases/v1.10 releases/v2.0 && echo 'v2.0.0' > releases/v2.0/VERSION
directory | (cd releases && cp -r v1.10 v2.0 && echo v2.0.0 > v2.0/VERSION)
append | cp -r releases/v1.10 releases/v2.0⏎echo v2.0.0 >> releases/v2.0/VERSION
order | echo v2.0.0 > releases/v2.0/VERSION⏎cp -r releases/v1.10 releases/v2.0
path | cp -r releases/v1.9 releases/v2.0⏎echo v2.0.0 > releases/v2.0/VERSION
other_command | mv releases/v1.10 releases/v2.0⏎echo v2.0.0 > releases/v2.0/VERSION

== program
Compile the program with make and run it.
make && ./main
separate | make⏎./main
target | make all && ./main
target | make main && ./main
options | make -s && ./main
other_tool | gcc -o main main.c util.c && ./main
order | ./main && make

Remove the object files in build.
rm build/*.o
other_tool | find build -name '*.o' -delete
names | rm build/main.o build/util.o
glob | rm build/*
options | rm -f build/*.o
directory | cd build && rm *.o
path | rm *.o

Which header files mention int? List the names.
grep -l int *.h docs/*.h
other_tool | grep -rl --include='*.h' int .
options | grep -l 'int' docs/*.h *.h
glob | grep -l int *.h
inverted | grep -L int *.h docs/*.h
word | grep -lw int *.h docs/*.h

Count how often each kind of message (the word before the colon) is in build/log.txt.
cut -d: -f1 build/log.txt | sort | uniq -c
other_tool | awk -F: '{print $1}' build/log.txt | sort | uniq -c
missing_sort | cut -d: -f1 build/log.txt | uniq -c
other_tool | sed 's/:.*//' build/log.txt | sort | uniq -c
field | cut -d: -f2 build/log.txt | sort | uniq -c
count | cut -d: -f1 build/log.txt | sort -u

Show util.c with line numbers.
cat -n util.c
options | cat --number util.c
other_tool | nl -ba util.c
option | cat -b util.c
other_tool | awk '{printf "%6d\t%s\n", NR, $0}' util.c
path | cat -n util.h

$ cat util.c
Add a function sub to the end of util.c that subtracts b from a.
cat >> util.c <<'EOF'⏎⏎int sub(int a, int b) {⏎    return a - b;⏎}⏎EOF
other_tool | printf '\nint sub(int a, int b) {\n    return a - b;\n}\n' >> util.c
quotes | cat >> util.c <<EOF⏎⏎int sub(int a, int b) {⏎    return a - b;⏎}⏎EOF
overwrite | cat > util.c <<'EOF'⏎⏎int sub(int a, int b) {⏎    return a - b;⏎}⏎EOF
operand | cat >> util.c <<'EOF'⏎⏎int sub(int a, int b) {⏎    return b - a;⏎}⏎EOF
whole | cat > util.c <<'EOF'⏎#include "util.h"⏎⏎int add(int a, int b) {⏎    return a + b;⏎}⏎⏎int sub(int a, int b) {⏎    return a - b;⏎}⏎EOF
spacing | cat >> util.c <<'EOF'⏎int sub(int a, int b) {⏎    return a - b;⏎}⏎EOF

Rename the function add to plus in main.c, util.c and util.h.
sed -i 's/\badd\b/plus/g' main.c util.c util.h
other_tool | perl -pi -e 's/\badd\b/plus/g' main.c util.c util.h
glob | sed -i 's/\badd\b/plus/g' *.c *.h
dropped_operand | sed -i 's/\badd\b/plus/g' main.c util.c
pattern | sed -i 's/add/plus/g' main.c util.c util.h
dropped_flag | sed -i 's/\badd\b/plus/' main.c util.c util.h
loop | for f in main.c util.c util.h; do sed -i 's/\badd\b/plus/g' "$f"; done

== repository
Show the last two commits, one line each.
git log --oneline -n 2
options | git log -2 --oneline
format | git log -2 --pretty=oneline --abbrev-commit
number | git log --oneline -n 3
format | git log -n 2
pipe | git log --oneline | head -n 2
format | git log -n 2 --format='%h %s'

Which files are not under version control?
git ls-files --others
options | git ls-files -o
options | git ls-files -o --exclude-standard
other_command | git ls-files
other_format | git status --porcelain | grep '^??' | cut -c4-
option | git ls-files -m

Show what was changed in src/app.py since the last commit.
git diff src/app.py
options | git diff -- src/app.py
options | git diff HEAD src/app.py
staged | git diff --cached src/app.py
path | git diff src/util.py
wider | git diff
format | git diff --stat src/app.py

Make a new branch fix from here and switch to it.
git checkout -q -b fix
other_command | git switch -q -c fix
joined | git branch fix && git checkout -q fix
name | git checkout -q -b fixes
start | git checkout -q -b fix HEAD~1
only_made | git branch fix

Commit the change of src/app.py with the message "Note".
git commit -qm Note src/app.py
joined | git add src/app.py && git commit -q -m 'Note'
options | git commit --quiet --message=Note src/app.py
all | git add -A && git commit -qm Note
options | git commit -qam Note
message | git commit -qm Notes src/app.py
staged_only | git commit -qm Note

Throw away the change of src/app.py.
git checkout -q -- src/app.py
other_command | git restore src/app.py
options | git checkout -q HEAD -- src/app.py
path | git checkout -q -- src/util.py
other_command | git stash -q
staged | git restore --staged src/app.py

On which branch are we? Print its name.
git branch --show-current
other_command | git rev-parse --abbrev-ref HEAD
other_command | git symbolic-ref --short HEAD
wider | git branch
other_tool | sed 's,.*refs/heads/,,' .git/HEAD
other_command | git rev-parse HEAD

Print the subject of the first commit.
git log --reverse --format=%s | head -n 1
other_end | git log --format=%s | tail -n 1
direction | git log --format=%s | head -n 1
other_command | git log --format=%s $(git rev-list --max-parents=0 HEAD)
format | git log --reverse --format=%h | head -n 1

== book
Count the words of all chapters together.
cat chapters/*.txt | wc -w
other_tool | awk '{n += NF} END {print n}' chapters/*.txt
option | cat chapters/*.txt | wc -l
path | wc -w < poem.txt
per_file | wc -w chapters/*.txt
pipe | find chapters -name '*.txt' -exec cat {} + | wc -w
pipe | cat chapters/ch*.txt | tr -s ' \n' '\n\n' | grep -c .

How often is the word "the" in poem.txt, in any case?
grep -oiw the poem.txt | wc -l
options | grep -o -i -w 'the' poem.txt | wc -l
case | grep -ow the poem.txt | wc -l
lines | grep -ciw the poem.txt
word | grep -oi the poem.txt | wc -l
other_tool | tr -cs A-Za-z '\n' < poem.txt | grep -cix the

Remove the white space at the ends of lines in poem.txt.
sed -i 's/[[:space:]]*$//' poem.txt
other_pattern | sed -i 's/ *$//' poem.txt
regex | sed -E -i 's/\s+$//' poem.txt
start | sed -i 's/^[[:space:]]*//' poem.txt
dropped_option | sed 's/[[:space:]]*$//' poem.txt
one | sed -i 's/[[:space:]]$//' poem.txt

Replace tabs by four spaces in tabs.txt, in place.
sed -i 's/\t/    /g' tabs.txt
other_tool | perl -pi -e 's/\t/    /g' tabs.txt
aligned | expand -t 4 tabs.txt > t && mv t tabs.txt
number | sed -i 's/\t/  /g' tabs.txt
dropped_flag | sed -i 's/\t/    /' tabs.txt
other_tool | python3 -c "s = open('tabs.txt').read(); open('tabs.txt', 'w').write(s.replace('\t', '    '))"

Turn dos.txt into a file with Unix line ends.
sed -i 's/\r$//' dos.txt
other_tool | tr -d '\r' < dos.txt > t && mv t dos.txt
other_tool | perl -pi -e 's/\r//' dos.txt
shown_only | tr -d '\r' < dos.txt
clobbered | tr -d '\r' < dos.txt > dos.txt
direction | sed -i 's/$/\r/' dos.txt

Print the first line of each chapter.
head -q -n 1 chapters/*.txt
loop | for f in chapters/*.txt; do head -n 1 "$f"; done
other_tool | awk 'FNR == 1' chapters/*.txt
counter | awk 'NR == 1' chapters/*.txt
other_tool | sed -s -n 1p chapters/*.txt
separate_flag | sed -n 1p chapters/*.txt
headers | head -n 1 chapters/*.txt
other_end | tail -q -n 1 chapters/*.txt

Is "ember" in dictionary.txt, in any case? Print the line.
grep -i '^ember$' dictionary.txt
options | grep -ix ember dictionary.txt
case | grep '^ember$' dictionary.txt
other_tool | awk 'tolower($0) == "ember"' dictionary.txt
quiet | grep -qi '^ember$' dictionary.txt

Print the longest line of poem.txt.
awk '{if (length > length(m)) m = $0} END {print m}' poem.txt
other_tool | awk '{print length, $0}' poem.txt | sort -rn | head -n 1 | cut -d' ' -f2-
length_only | wc -L < poem.txt
operator | awk '{if (length < length(m) || NR == 1) m = $0} END {print m}' poem.txt
other_tool | python3 -c "print(max(open('poem.txt').read().splitlines(), key=len))"
operator | awk '{if (length >= length(m)) m = $0} END {print m}' poem.txt

== events
Count the events of each type in events.jsonl.
jq -r .type events.jsonl | sort | uniq -c
other_tool | grep -o '"type": "[a-z]*"' events.jsonl | cut -d'"' -f4 | sort | uniq -c
missing_sort | jq -r .type events.jsonl | uniq -c
field | jq -r .user events.jsonl | sort | uniq -c
quotes | jq .type events.jsonl | sort | uniq -c
options | cat events.jsonl | jq --raw-output '.type' | sort | uniq -c

Print the ids of the events that took longer than 1000 ms.
jq 'select(.ms > 1000) | .id' events.jsonl
operator | jq 'select(.ms >= 1000) | .id' events.jsonl
other_tool | python3 -c "import json⏎for line in open('events.jsonl'):⏎    e = json.loads(line)⏎    if e['ms'] > 1000: print(e['id'])"
field | jq 'select(.ms > 1000) | .ms' events.jsonl
options | jq -r 'select(.ms > 1000).id' events.jsonl
operator | jq 'select(.ms < 1000) | .id' events.jsonl
slurped | jq -s '.[] | select(.ms > 1000) | .id' events.jsonl

Print the e-mail addresses of the active users.
jq -r '.users[] | select(.active) | .email' users.json
explicit | jq -r '.users[] | select(.active == true) | .email' users.json
mapped | jq -r '.users | map(select(.active)) | .[].email' users.json
inverted | jq -r '.users[] | select(.active | not) | .email' users.json
wider | jq -r '.users[].email' users.json
field | jq -r '.users[] | select(.active) | .name' users.json
other_tool | python3 -c "import json; print('\n'.join(u['email'] for u in json.load(open('users.json'))['users'] if u['active']))"

Which numbers of ids.txt are also in seen.txt? Print them sorted as text, each once.
comm -12 <(sort -u ids.txt) <(sort -u seen.txt)
other_tool | grep -Fxf seen.txt ids.txt | sort -u
dropped_option | grep -f seen.txt ids.txt | sort -u
option | comm -23 <(sort -u ids.txt) <(sort -u seen.txt)
other_tool | awk 'NR == FNR {s[$1]; next} $1 in s' seen.txt ids.txt | sort -u
direction | comm -12 <(sort -u seen.txt) <(sort -u ids.txt)

Print the name of the user with the highest score.
jq -r '.users | max_by(.score) | .name' users.json
sorted | jq -r '.users | sort_by(.score) | last | .name' users.json
sorted | jq -r '.users | sort_by(.score) | .[-1].name' users.json
direction | jq -r '.users | min_by(.score) | .name' users.json
direction | jq -r '.users | sort_by(.score) | first | .name' users.json
field | jq -r '.users | max_by(.name) | .name' users.json
other_tool | python3 -c "import json; print(max(json.load(open('users.json'))['users'], key=lambda u: u['score'])['name'])"

Print the field n of all files in parts.
jq .n parts/*.json
loop | for f in parts/*.json; do jq .n "$f"; done
field | jq .tag parts/*.json
pipe | cat parts/*.json | jq .n
path | jq .n parts/one.json
slurped | jq -s 'map(.n)' parts/*.json

Write the users as CSV lines name,score to scores.csv.
jq -r '.users[] | [.name, .score] | @csv' users.json > scores.csv
quotes | jq -r '.users[] | "\(.name),\(.score)"' users.json > scores.csv
order | jq -r '.users[] | [.score, .name] | @csv' users.json > scores.csv
append | jq -r '.users[] | [.name, .score] | @csv' users.json >> scores.csv
shown_only | jq -r '.users[] | [.name, .score] | @csv' users.json
pipe | cat users.json | jq -r '.users[] | [.name, .score] | @csv' > scores.csv

Print the duplicates in ids.txt, each once, sorted as text.
sort ids.txt | uniq -d
other_tool | sort ids.txt | uniq -c | awk '$1 > 1 {print $2}'
missing_sort | uniq -d ids.txt
option | sort ids.txt | uniq -u
repeated | sort ids.txt | uniq -D
other_tool | awk 'seen[$0]++ == 1' ids.txt | sort

== attic
List all files below docs with their sizes in bytes, sorted by path.
find docs -type f -printf '%p %s\n' | sort
other_tool | find docs -type f | sort | xargs stat -c '%n %s'
missing_type | find docs -printf '%p %s\n' | sort
order | find docs -type f -printf '%s %p\n' | sort
options | find docs -type f -exec stat -c '%n %s' {} + | sort
path | find photos -type f -printf '%p %s\n' | sort

Find the files larger than 1 kilobyte in photos.
find photos -type f -size +1024c
blocks | find photos -type f -size +1k
direction | find photos -type f -size -1024c
number | find photos -type f -size +1000c
options | find photos -size +1024c -type f
path | find . -type f -size +1024c

List all JPEG pictures in photos, also those that end in .JPG, sorted.
find photos -iname '*.jpg' | sort
pipe | ls photos/*.jpg photos/*.JPG | sort
regex | ls photos | grep -i '\.jpg$' | sed 's,^,photos/,' | sort
case | find photos -name '*.jpg' | sort
or | find photos -name '*.jpg' -o -name '*.JPG' | sort
pattern | find photos -iname '*jp*' | sort

Are a.txt and "copy of a.txt" equal? Print "equal" if they are, "different" if not.
cmp -s a.txt 'copy of a.txt' && echo equal || echo different
other_tool | diff -q a.txt 'copy of a.txt' > /dev/null && echo equal || echo different
if | if cmp -s a.txt 'copy of a.txt'; then echo equal; else echo different; fi
path | cmp -s b.txt 'copy of a.txt' && echo equal || echo different
inverted | cmp -s a.txt 'copy of a.txt' && echo different || echo equal
checksum | [ "$(md5sum < a.txt)" = "$(md5sum < 'copy of a.txt')" ] && echo equal || echo different

List all entries of this folder by name, hidden ones too, but not . and ...
ls -A
options | ls --almost-all
option | ls -a
dropped_option | ls
other_tool | find . -maxdepth 1 -mindepth 1 -printf '%f\n' | sort
format | ls -lA
options | ls -A1

Pack the folder docs into docs.tar and list what is in it.
tar -cf docs.tar docs && tar -tf docs.tar
options | tar cf docs.tar docs && tar tf docs.tar
separate | tar -cf docs.tar docs⏎tar -tf docs.tar
verbose | tar -cvf docs.tar docs
path | tar -cf docs.tar photos && tar -tf docs.tar
compressed | tar -czf docs.tar docs && tar -tf docs.tar
inside | tar -cf docs.tar -C docs . && tar -tf docs.tar

Delete the empty files below docs.
find docs -type f -empty -delete
options | find docs -type f -size 0 -delete
other_tool | find docs -type f -empty -exec rm {} +
other_tool | find docs -type f -empty | xargs -r rm
missing_type | find docs -empty -delete
negated | find docs -type f ! -empty -delete
shown_only | find docs -type f -empty

Rename every .md file in docs to end in .txt.
for f in docs/*.md; do mv "$f" "${f%.md}.txt"; done
other_tool | find docs -maxdepth 1 -name '*.md' -exec sh -c 'mv "$1" "${1%.md}.txt"' _ {} \;
suffix | for f in docs/*.md; do mv "$f" "$f.txt"; done
copied | for f in docs/*.md; do cp "$f" "${f%.md}.txt"; done
quotes | for f in docs/*.md; do mv $f ${f%.md}.txt; done
glob | for f in docs/*; do mv "$f" "${f%.*}.txt"; done

Copy the files that list.txt names to picked.
mkdir picked && xargs -a list.txt cp -t picked
other_tool | mkdir picked && while read -r f; do cp "$f" picked/; done < list.txt
pipe | mkdir -p picked && cat list.txt | xargs -I{} cp {} picked/
moved | mkdir picked && xargs -a list.txt mv -t picked
substitution | mkdir picked; cp $(cat list.txt) picked
partly | mkdir picked && head -n 2 list.txt | xargs cp -t picked

How many bytes has big.bin?
wc -c < big.bin
other_tool | stat -c %s big.bin
pipe | cat big.bin | wc -c
option | wc -l < big.bin
path | wc -c < a.txt
other_tool | stat --format=%s big.bin
human | du -h big.bin
other_tool | find big.bin -printf '%s\n'

== testbed
$ ls tests
Show the file with the syntax error.
cat tests/missing_colon.py
directory | cd tests && cat missing_colon.py
path | cat ./tests/missing_colon.py
path | cat tests/existing_lint_error.py
options | cat -n tests/missing_colon.py
range | head -n 4 tests/missing_colon.py

$ cat tests/missing_colon.py
Fix the syntax error in tests/missing_colon.py.
sed -i 's/def division(a: float, b: float) -> float/def division(a: float, b: float) -> float:/' tests/missing_colon.py
line | sed -i '4s/$/:/' tests/missing_colon.py
line | sed -i '5s/$/:/' tests/missing_colon.py
pattern | sed -i 's/-> float/-> float:/' tests/missing_colon.py
pattern | sed -i 's/float/float:/' tests/missing_colon.py
dropped_option | sed 's/-> float/-> float:/' tests/missing_colon.py
whole | cat > tests/missing_colon.py << 'EOF'⏎#!/usr/bin/env python3⏎⏎⏎def division(a: float, b: float) -> float:⏎    return a/b⏎⏎⏎if __name__ == "__main__":⏎    print(division(123, 15))⏎⏎EOF

$ cat tests/missing_colon.py
Fix tests/missing_colon.py and run it.
sed -i '4s/$/:/' tests/missing_colon.py && python3 tests/missing_colon.py
separate | sed -i '4s/$/:/' tests/missing_colon.py⏎python3 tests/missing_colon.py
order | python3 tests/missing_colon.py⏎sed -i '4s/$/:/' tests/missing_colon.py
pattern | sed -i 's/-> float$/-> float:/' tests/missing_colon.py; python3 tests/missing_colon.py
line | sed -i '3s/$/:/' tests/missing_colon.py && python3 tests/missing_colon.py

Where is the class VersionInfo defined?
grep -rn 'class VersionInfo' --include='*.py' .
pipe | find . -iname '*.py' | xargs grep -n 'class VersionInfo'
word | grep -rnw 'class VersionInfo' --include='*.py' .
dropped_option | grep -r 'class VersionInfo' --include='*.py' .
names | grep -rl 'class VersionInfo' --include='*.py' .
path | grep -rn 'class VersionInfo' --include='*.py'

Is oauthlib at hand, and where? Print its file.
python3 -c "import oauthlib; print(oauthlib.__file__)"
quotes | python3 -c 'import oauthlib; print(oauthlib.__file__)'
module | python3 -c "import oauthlib.oauth1; print(oauthlib.__file__)"
module | python3 -c "import oauthlib.oauth2; print(oauthlib.oauth2.__file__)"
attribute | python3 -c "import oauthlib; print(oauthlib.__version__)"
heredoc | python3 - <<'EOF'⏎import oauthlib⏎print(oauthlib.__file__)⏎EOF
"""
