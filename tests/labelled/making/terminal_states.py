"""States of a terminal: a workspace, what was asked, what was shown before, the expert's command and other commands.

Other commands are written by hand, each with what it changes; which of them do the same is found by executing them,
never said here. One state's text is a task, the expert's command, then `kind | command` lines; `$ command` lines are
turns before it, whose output the state shows. Files that a turn before shows whole (`cat FILE`) are the same in every
copy of the workspace: the agent knows them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from tests.labelled.making.terminal_states_more import MORE_STATES


@dataclass(frozen=True, slots=True)
class State:
    """`others`: (kind, command). `newline`: commands of several lines are written with `\\n` in the text."""

    world: str
    task: str
    expert: str
    others: tuple[tuple[str, str], ...]
    history: tuple[str, ...]

    @property
    def id(self) -> str:
        """Content hash of what the agent sees and of the expert's command."""
        text = "\x1f".join((self.world, self.task, self.expert, *self.history))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def seen(self) -> tuple[str, ...]:
        return tuple(command[4:] for command in self.history if command.startswith("cat ") and " " not in command[4:])


def states() -> list[State]:
    """All states, in the order of their text."""
    return [*_read(_STATES), *_read(MORE_STATES)]


def _read(text: str) -> Iterator[State]:
    world = ""
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("== "):
            world = lines.pop(0)[3:]
        history = tuple(line[2:] for line in lines if line.startswith("$ "))
        task, expert, *others = [line for line in lines if not line.startswith("$ ")]
        pairs = (line.split(" | ", 1) for line in others)
        yield State(world, task, _command(expert), tuple((kind, _command(one)) for kind, one in pairs), ("ls", *history))


def _command(text: str) -> str:
    """`⏎` stands for a new line."""
    return text.replace("⏎", "\n")


_STATES = r"""
== weblog
Show the first 5 lines of app.log.
head -n 5 app.log
other_tool | sed -n '1,5p' app.log
other_tool | awk 'NR <= 5' app.log
range | sed -n '1,6p' app.log
range | awk 'NR < 5' app.log
other_end | tail -n 5 app.log

Count the lines of access.log that have status 404.
grep -c '" 404 ' access.log
pipe | grep '" 404 ' access.log | wc -l
other_tool | awk '$9 == 404' access.log | wc -l
pattern | grep -c 404 access.log
field | awk '$10 == 404' access.log | wc -l
option | grep -vc '" 404 ' access.log

List the client addresses in access.log, each once, sorted.
cut -d ' ' -f 1 access.log | sort -u
other_tool | awk '{print $1}' access.log | sort -u
pipe | cut -d' ' -f1 access.log | sort | uniq
missing_sort | cut -d ' ' -f 1 access.log | uniq
field | cut -d ' ' -f 2 access.log | sort -u
other_tool | sed 's/ .*//' access.log | sort -u

Find every line with ERROR in app.log, with its line number.
grep -n ERROR app.log
options | grep --line-number 'ERROR' app.log
other_tool | awk '/ERROR/ {print NR ":" $0}' app.log
case | grep -ni error app.log
pattern | grep -n ' ERROR$' app.log
dropped_option | grep ERROR app.log

Search all files under logs for the word ERROR.
grep -r ERROR logs
pipe | find logs -type f -exec grep -H ERROR {} +
pipe | find logs -type f | xargs grep -H ERROR
dropped_option | grep ERROR logs/*
glob | grep -r --include='*.log' ERROR logs
case | grep -ri ERROR logs

How many requests were made with POST in access.log?
grep -c '"POST ' access.log
other_tool | awk '$6 == "\"POST"' access.log | wc -l
pipe | cat access.log | grep '"POST ' | wc -l
pattern | grep -c GET access.log
case | grep -ci '"post ' access.log

Write the ERROR lines of app.log to errors.txt.
grep ERROR app.log > errors.txt
other_tool | awk '/ERROR/' app.log > errors.txt
other_tool | sed -n '/ERROR/p' app.log > errors.txt
append | grep ERROR app.log >> errors.txt
path | grep ERROR app.log > error.txt
tee | grep ERROR app.log | tee errors.txt
case | grep -i ERROR app.log > errors.txt

Print the last 3 lines of logs/worker.log.
tail -n 3 logs/worker.log
options | tail -3 logs/worker.log
directory | cd logs && tail -n 3 worker.log
subshell | (cd logs; tail -n 3 worker.log)
range | tail -n +3 logs/worker.log
path | tail -n 3 logs/old/worker.1.log

Find the empty files under logs.
find logs -type f -empty
options | find logs -type f -size 0
missing_type | find logs -empty
options | find logs -empty -type f
negated | find logs -type f ! -empty
path | find . -type f -empty

Show the five largest response sizes in access.log, the largest first.
awk '{print $10}' access.log | sort -rn | head -n 5
pipe | awk '{print $10}' access.log | sort -n -r | head -5
other_tool | cut -d' ' -f10 access.log | sort -nr | head -n 5
numeric | awk '{print $10}' access.log | sort -r | head -n 5
direction | awk '{print $10}' access.log | sort -n | head -n 5
unique | awk '{print $10}' access.log | sort -rnu | head -n 5
other_end | awk '{print $10}' access.log | sort -n | tail -n 5

Remove the folder logs/old with everything in it.
rm -r logs/old
options | rm -rf logs/old
directory | cd logs && rm -r old && cd ..
subshell | (cd logs && rm -r old)
other_tool | find logs/old -delete
path | rm -r logs
glob | rm -r logs/old/*
dropped_option | rm logs/old

Count lines per level in app.log.
awk '{print $3}' app.log | sort | uniq -c
other_tool | cut -d ' ' -f 3 app.log | sort | uniq -c
missing_sort | awk '{print $3}' app.log | uniq -c
field | awk '{print $4}' app.log | sort | uniq -c
case | awk '{print tolower($3)}' app.log | sort | uniq -c

== shop
$ head -n 3 sales.csv
Print the product column of sales.csv without the header.
tail -n +2 sales.csv | cut -d, -f2
other_tool | awk -F, 'NR > 1 {print $2}' sales.csv
other_tool | sed 1d sales.csv | cut -d , -f 2
field | tail -n +2 sales.csv | cut -d, -f3
range | tail -n 2 sales.csv | cut -d, -f2
header | cut -d, -f2 sales.csv
other_tool | python3 -c "import csv⏎for row in list(csv.reader(open('sales.csv')))[1:]: print(row[1])"

Sum the quantity column of sales.csv.
awk -F, 'NR > 1 {s += $4} END {print s}' sales.csv
pipe | tail -n +2 sales.csv | awk -F, '{s += $4} END {print s}'
header | awk -F, '{s += $4} END {print s}' sales.csv
field | awk -F, 'NR > 1 {s += $5} END {print s}' sales.csv
other_tool | tail -n +2 sales.csv | cut -d, -f4 | paste -sd+ | bc
other_tool | python3 -c "import csv; print(sum(int(row['quantity']) for row in csv.DictReader(open('sales.csv'))))"
counted | awk -F, 'NR > 1 {s += 1} END {print s}' sales.csv

Sort sales.csv (without its header) by quantity, the largest first.
tail -n +2 sales.csv | sort -t, -k4,4nr
options | tail -n +2 sales.csv | sort -t , -k 4,4 -n -r
numeric | tail -n +2 sales.csv | sort -t, -k4,4r
direction | tail -n +2 sales.csv | sort -t, -k4,4n
field | tail -n +2 sales.csv | sort -t, -k5,5nr
other_tool | sed 1d sales.csv | sort --field-separator=, --key=4,4nr

How many lines has customers.csv?
wc -l < customers.csv
pipe | cat customers.csv | wc -l
other_tool | awk 'END {print NR}' customers.csv
other_tool | grep -c '' customers.csv
option | wc -w < customers.csv
path | wc -l < sales.csv
other_tool | sed -n '$=' customers.csv

Print the names of all products in products.json.
jq -r '.[].name' products.json
other_tool | python3 -c "import json; print(*[p['name'] for p in json.load(open('products.json'))], sep='\n')"
pipe | cat products.json | jq -r '.[] | .name'
quotes | jq '.[].name' products.json
field | jq -r '.[].price' products.json
options | jq --raw-output 'map(.name)[]' products.json
other_tool | grep '"name"' products.json | cut -d'"' -f4

Which products have no stock left, or fewer than 10? Print their names.
jq -r '.[] | select(.stock < 10) | .name' products.json
pipe | jq -r 'map(select(.stock < 10)) | .[].name' products.json
operator | jq -r '.[] | select(.stock <= 10) | .name' products.json
operator | jq -r '.[] | select(.stock > 10) | .name' products.json
field | jq -r '.[] | select(.price < 10) | .name' products.json
other_tool | python3 -c "import json⏎for p in json.load(open('products.json')):⏎    if p['stock'] < 10: print(p['name'])"

Copy the reports folder to backup.
cp -r reports backup
options | cp -R reports backup
options | cp -a reports backup
other_tool | mkdir backup && cp reports/* backup/
other_command | mv reports backup
glob | mkdir backup && cp reports/*.csv backup
path | cp -r reports backups

Customers of Oslo: print the whole lines.
grep ',Oslo,' customers.csv
other_tool | awk -F, '$3 == "Oslo"' customers.csv
pattern | grep 'Oslo$' customers.csv
field | awk -F, '$2 == "Oslo"' customers.csv
case | grep ',oslo,' customers.csv
other_tool | sed -n '/,Oslo,/p' customers.csv
inverted | grep -v ',Oslo,' customers.csv

Replace commas by semicolons in customers.csv, in place.
sed -i 's/,/;/g' customers.csv
other_tool | tr ',' ';' < customers.csv > t && mv t customers.csv
quotes | sed -i "s/,/;/g" customers.csv
delimiter | sed -i 's|,|;|g' customers.csv
dropped_flag | sed -i 's/,/;/' customers.csv
dropped_option | sed 's/,/;/g' customers.csv
other_tool | perl -pi -e 's/,/;/g' customers.csv
direction | sed -i 's/;/,/g' customers.csv

List the adults (18 or older) by name.
awk -F, 'NR > 1 && $4 >= 18 {print $2}' customers.csv
operator | awk -F, 'NR > 1 && $4 > 18 {print $2}' customers.csv
pipe | tail -n +2 customers.csv | awk -F, '$4 >= 18 {print $2}'
quotes | awk -F ',' '{ if (NR > 1 && $4 >= 18) print $2 }' customers.csv
operator | awk -F, 'NR > 1 && $4 < 18 {print $2}' customers.csv
field | awk -F, 'NR > 1 && $4 >= 18 {print $3}' customers.csv

== package
List all Python files under src.
find src -name '*.py'
options | find src -type f -name '*.py'
quotes | find src -name \*.py
path | find ./src -name "*.py"
glob | find src -name '*.p*'
path | find . -name '*.py'
case | find src -name '*_*.py'
other_tool | ls src/*.py

Find the lines with TODO in the Python files under src.
grep -rn TODO src --include='*.py'
options | grep -nr --include=*.py 'TODO' src
options | grep --recursive --line-number --include='*.py' TODO src/
case | grep -rni TODO src --include='*.py'
path | grep -rn TODO . --include='*.py'
pipe | find src -name '*.py' -print0 | xargs -0 grep -n TODO
dropped_option | grep -r TODO src --include='*.py'
pattern | grep -rn 'TODO:' src --include='*.py'

Print the version that setup.cfg names.
grep '^version' setup.cfg | cut -d' ' -f3
other_tool | awk '/^version/ {print $3}' setup.cfg
other_tool | sed -n 's/^version = //p' setup.cfg
field | awk '/^version/ {print $1}' setup.cfg
pattern | grep '^name' setup.cfg | cut -d' ' -f3
other_tool | awk -F ' = ' '$1 == "version" {print $2}' setup.cfg

Which files under src define a class?
grep -rl '^class ' src
options | grep -lr '^class ' src
pipe | grep -r '^class ' src | cut -d: -f1 | sort -u
inverted | grep -rL '^class ' src
pattern | grep -rl 'class' src
dropped_option | grep -r '^class ' src

Count the test functions in the files of tests.
grep -h '^def test_' tests/*.py | wc -l
pipe | cat tests/*.py | grep -c '^def test_'
per_file | grep -c '^def test_' tests/*.py
pattern | grep -h '^def ' tests/*.py | wc -l
path | grep -h '^def test_' src/*.py | wc -l
other_tool | cat tests/*.py | awk '/^def test_/ {n++} END {print n+0}'

$ cat main.py
Run main.py with the argument fast.
python3 main.py fast
path | python3 ./main.py fast
options | python3 -B main.py fast
argument | python3 main.py slow
argument | python3 main.py fast fast
dropped_argument | python3 main.py
directory | cd src && python3 ../main.py fast && cd ..

$ cat main.py
Set VERSION to 2.0.0 in main.py.
sed -i "s/^VERSION = .*/VERSION = '2.0.0'/" main.py
other_pattern | sed -i "s/VERSION = '[0-9.]*'/VERSION = '2.0.0'/" main.py
number | sed -i "s/^VERSION = .*/VERSION = '2.0'/" main.py
quotes | sed -i 's/^VERSION = .*/VERSION = "2.0.0"/' main.py
dropped_option | sed "s/^VERSION = .*/VERSION = '2.0.0'/" main.py
pattern | sed -i "s/VERSION.*/VERSION = '2.0.0'/" main.py
line | sed -i "3s/.*/VERSION = '2.0.0'/" main.py

Sort requirements.txt in place.
sort -o requirements.txt requirements.txt
pipe | sort requirements.txt > r && mv r requirements.txt
clobbered | sort requirements.txt > requirements.txt
case | sort -f -o requirements.txt requirements.txt
direction | sort -r -o requirements.txt requirements.txt
other_tool | python3 -c "lines = sorted(open('requirements.txt')); open('requirements.txt', 'w').writelines(lines)"

Print the requirements without their versions.
cut -d= -f1 requirements.txt
other_tool | sed 's/=.*//' requirements.txt
other_tool | awk -F== '{print $1}' requirements.txt
field | cut -d= -f3 requirements.txt
pattern | sed 's/==//' requirements.txt
other_tool | grep -o '^[^=]*' requirements.txt

Create the folder src/plugins with an empty file __init__.py in it.
mkdir -p src/plugins && touch src/plugins/__init__.py
options | mkdir src/plugins; touch src/plugins/__init__.py
directory | mkdir src/plugins && (cd src/plugins && touch __init__.py)
order | touch src/plugins/__init__.py && mkdir -p src/plugins
path | mkdir -p src/plugin && touch src/plugin/__init__.py
redirect | mkdir -p src/plugins && : > src/plugins/__init__.py
content | mkdir -p src/plugins && echo > src/plugins/__init__.py

Show lines 3 to 8 of README.md.
sed -n '3,8p' README.md
pipe | head -n 8 README.md | tail -n +3
other_tool | awk 'NR >= 3 && NR <= 8' README.md
range | sed -n '3,7p' README.md
range | head -n 8 README.md | tail -n 3
dropped_option | sed '3,8p' README.md

How many lines of code are in src, all files together?
cat src/*.py | wc -l
other_tool | awk 'END {print NR}' src/*.py
other_tool | wc -l src/*.py | tail -n 1
option | cat src/*.py | wc -w
path | cat tests/*.py | wc -l
pipe | find src -name '*.py' -exec cat {} + | wc -l
per_file | wc -l src/*.py

Rename src/data to src/tables.
mv src/data src/tables
directory | cd src && mv data tables && cd ..
subshell | (cd src; mv data tables)
other_command | cp -r src/data src/tables
direction | mv src/tables src/data
other_tool | cp -r src/data src/tables && rm -r src/data

Print each function name that is defined in the modules of src, sorted.
grep -oh '^def [a-z_0-9]*' src/*.py | cut -d' ' -f2 | sort
other_tool | sed -n 's/^def \([a-z_0-9]*\).*/\1/p' src/*.py | sort
missing_sort | grep -oh '^def [a-z_0-9]*' src/*.py | cut -d' ' -f2
pattern | grep -oh '^def [a-z]*' src/*.py | cut -d' ' -f2 | sort
other_tool | cat src/*.py | awk '/^def / {sub(/\(.*/, "", $2); print $2}' | sort
unique | grep -oh '^def [a-z_0-9]*' src/*.py | cut -d' ' -f2 | sort -u

== config
$ cat app.ini
Set debug to false in app.ini.
sed -i 's/^debug = .*/debug = false/' app.ini
other_pattern | sed -i 's/debug = true/debug = false/; s/debug = false/debug = false/' app.ini
other_tool | perl -pi -e 's/^debug = .*/debug = false/' app.ini
value | sed -i 's/^debug = .*/debug = False/' app.ini
dropped_option | sed 's/^debug = .*/debug = false/' app.ini
line | sed -i '4s/.*/debug = false/' app.ini
line | sed -i '5s/.*/debug = false/' app.ini

Print the lines of app.ini that are neither empty nor comments.
grep -v -e '^#' -e '^$' app.ini
regex | grep -Ev '^(#|$)' app.ini
pipe | grep -v '^#' app.ini | grep -v '^$'
other_tool | sed '/^#/d; /^$/d' app.ini
other_tool | awk 'NF && !/^#/' app.ini
dropped_pattern | grep -v '^#' app.ini
pattern | grep -v '#' app.ini | grep -v '^$'
inverted | grep -e '^#' -e '^$' app.ini

What port is set in the section database of app.ini?
sed -n '/^\[database\]/,/^\[/p' app.ini | grep '^port'
other_tool | awk '/^\[/ {s = $0} s == "[database]" && /^port/' app.ini
pattern | grep '^port' app.ini
section | sed -n '/^\[server\]/,/^\[/p' app.ini | grep '^port'
other_end | grep '^port' app.ini | tail -n 1
other_end | grep '^port' app.ini | head -n 1

Print the value of LOG_LEVEL in .env.
grep '^LOG_LEVEL=' .env | cut -d= -f2
other_tool | sed -n 's/^LOG_LEVEL=//p' .env
subshell | (. ./.env; echo "$LOG_LEVEL")
other_tool | awk -F= '$1 == "LOG_LEVEL" {print $2}' .env
field | grep '^LOG_LEVEL=' .env | cut -d= -f1
sourced | . ./.env; echo "$LOG_LEVEL"
pattern | grep '^DEBUG=' .env | cut -d= -f2

List the files in conf.d that end in .conf.
ls conf.d/*.conf
other_tool | printf '%s\n' conf.d/*.conf
glob | ls conf.d/*.conf*
other_tool | find conf.d -name '*.conf' | sort
directory | cd conf.d && ls *.conf
options | ls -1 conf.d/*.conf

Comment out every root line in conf.d/site-b.conf.
sed -i 's/^root/# root/' conf.d/site-b.conf
other_pattern | sed -i '/^root/s/^/# /' conf.d/site-b.conf
pattern | sed -i 's/root/# root/' conf.d/site-b.conf
spacing | sed -i 's/^root/#root/' conf.d/site-b.conf
path | sed -i 's/^root/# root/' conf.d/site-a.conf
glob | sed -i 's/^root/# root/' conf.d/*.conf
backup | sed -i.bak 's/^root/# root/' conf.d/site-b.conf

Print the memory limit of settings.json.
jq .limits.mem settings.json
quotes | jq '.limits.mem' settings.json
pipe | cat settings.json | jq '.limits | .mem'
other_tool | python3 -c 'import json; print(json.load(open("settings.json"))["limits"]["mem"])'
field | jq .limits.cpu settings.json
field | jq .mem settings.json
wider | jq .limits settings.json

Append HOST=example.com to .env.
echo 'HOST=example.com' >> .env
other_tool | printf 'HOST=example.com\n' >> .env
other_tool | echo HOST=example.com | tee -a .env > /dev/null
heredoc | cat >> .env <<'EOF'⏎HOST=example.com⏎EOF
overwrite | echo 'HOST=example.com' > .env
value | echo 'HOST=www.example.com' >> .env
other_tool | sed -i '$a HOST=example.com' .env
spacing | echo 'HOST = example.com' >> .env

Count the services in compose.yaml.
grep -c 'image:' compose.yaml
pipe | grep 'image:' compose.yaml | wc -l
pattern | grep -c '^  [a-z]*:$' compose.yaml
pattern | grep -c ':' compose.yaml
other_tool | awk '/image:/ {n++} END {print n}' compose.yaml
option | grep -n 'image:' compose.yaml

Show where site-a.conf and site-b.conf of conf.d differ.
diff conf.d/site-a.conf conf.d/site-b.conf
directory | cd conf.d && diff site-a.conf site-b.conf && cd ..
direction | diff conf.d/site-b.conf conf.d/site-a.conf
format | diff -u conf.d/site-a.conf conf.d/site-b.conf
subshell | (cd conf.d; diff site-a.conf site-b.conf)
braces | diff conf.d/site-{a,b}.conf
path | diff conf.d/site-a.conf conf.d/site-c.conf.bak

Make a backup copy of app.ini called app.ini.bak, then set pool to 50.
cp app.ini app.ini.bak⏎sed -i 's/^pool = .*/pool = 50/' app.ini
joined | cp app.ini app.ini.bak && sed -i 's/^pool = .*/pool = 50/' app.ini
options | sed -i.bak 's/^pool = .*/pool = 50/' app.ini
order | sed -i 's/^pool = .*/pool = 50/' app.ini⏎cp app.ini app.ini.bak
direction | cp app.ini.bak app.ini⏎sed -i 's/^pool = .*/pool = 50/' app.ini
value | cp app.ini app.ini.bak⏎sed -i 's/^pool = .*/pool = 5/' app.ini
other_command | mv app.ini app.ini.bak⏎sed 's/^pool = .*/pool = 50/' app.ini.bak > app.ini
"""
