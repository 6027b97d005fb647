"""What coding agents are given to do by `scripts/clients --work`: a folder to work in, what the model says and runs, and the truth.

The model's part is written down here; everything else is real: the agent, its tools, the commands and what they print. `check` decides whether
the work was done: it must pass after healthy work and fail after stuck work.
"""

import dataclasses

CART = '''"""A shopping cart."""

TAX = 0.2


def total(items):
    return sum(item["price"] for item in items)


def with_tax(amount):
    return amount + TAX


def discount(amount, percent):
    return amount - amount * percent
'''

TESTS = '''import unittest

from shop import cart


class Total(unittest.TestCase):
    def test_counts_quantity(self):
        self.assertEqual(cart.total([{"price": 2, "quantity": 3}]), 6)

    def test_tax_is_a_share(self):
        self.assertAlmostEqual(cart.with_tax(100), 120)

    def test_discount_is_in_percent(self):
        self.assertEqual(cart.discount(200, 10), 180)
'''

SHOP = f"""
mkdir -p shop tests && touch shop/__init__.py tests/__init__.py
cat > shop/cart.py <<'END'
{CART}END
cat > tests/test_cart.py <<'END'
{TESTS}END
git init -q . && git add -A && git -c user.name=dev -c user.email=dev@localhost commit -qm "Begin the shop"
"""

MODULES = """
mkdir -p shop tests && touch shop/__init__.py tests/__init__.py
for name in orders users stock prices mail search export login; do
  printf 'def %s_version():\\n    return "1.%s"\\n\\n\\ndef describe():\\n    return "%%s of %s" %% %s_version()\\n' $name ${#name} $name $name > shop/$name.py
  printf 'import unittest\\n\\nfrom shop import %s\\n\\n\\nclass Describe(unittest.TestCase):\\n    def test_names_it(self):\\n        self.assertIn("%s", %s.describe())\\n' $name $name $name > tests/test_$name.py
done
git init -q . && git add -A && git -c user.name=dev -c user.email=dev@localhost commit -qm "Begin the shop"
"""

TEST = "python3 -m unittest 2>&1 | tail -20"
NAMES = ["orders", "users", "stock", "prices", "mail", "search", "export", "login"]


@dataclasses.dataclass
class Task:
    name: str
    label: str
    prompt: str
    # What the model says and has the shell run, in turn; then it says `end`.
    steps: list
    # A shell script that fills the folder.
    setup: str = SHOP
    # A command that succeeds if the work was done.
    check: str = "false"
    end: str = "That is all I can do."
    # Of stuck work: the step at which it begins to repeat itself, from 1.
    start: int = 1


def healthy(name, prompt, steps, check, setup=SHOP, end="Done, everything works now."):
    return Task(name, "healthy", prompt, steps, setup, check, end)


def stuck(name, prompt, steps, start=1, setup=SHOP, check=f"{TEST} | grep -q OK"):
    return Task(name, "loop", prompt, steps, setup, check, start=start)


def edit(old, new, file="shop/cart.py"):
    return f"sed -i 's/{old}/{new}/' {file}"


HEALTHY = [
    healthy(
        "fix the failing tests",
        "The tests of this repository fail. Fix the code, not the tests, and commit.",
        [
            ("I'll look at the repository first.", "git log --oneline && ls -R . | grep -v pyc | head -30"),
            ("Now the tests.", TEST),
            ("", "cat shop/cart.py"),
            ("The quantity is not used.", edit('item\\["price"\\] for', 'item["price"] * item["quantity"] for')),
            ("Run the tests again.", TEST),
            ("Tax is added as a number.", edit("amount + TAX", "amount * (1 + TAX)")),
            ("Run the tests again.", TEST),
            ("", edit("amount \\* percent", "amount * percent \\/ 100")),
            ("Run the tests again.", TEST),
            ("", "git diff --stat"),
            ("", "git add -A && git -c user.name=dev -c user.email=dev@localhost commit -qm 'Fix totals' && git status --short"),
        ],
        f"{TEST} | grep -q OK",
    ),
    healthy(
        "silent checks between edits",
        "Add a docstring to every module under shop/, checking that it compiles after each change.",
        [("List them.", "ls shop")]
        + [
            step
            for name in NAMES
            for step in (
                ("", f"sed -i '1i \"\"\"The part that knows about {name}.\"\"\"' shop/{name}.py"),
                ("", "python3 -m compileall -q shop"),
            )
        ],
        "test $(grep -l 'The part' shop/*.py | wc -l) = 8",
        MODULES,
    ),
    healthy(
        "wait for a build that ends",
        "Start ./build and tell me when it has passed.",
        [("Starting it.", "setsid sh ./build > build.log 2>&1 < /dev/null & echo started")]
        + [("Still running, I wait.", "sleep 3; cat build.status")] * 6
        + [("", "cat build.log")],
        "grep -q passed build.status",
        "printf 'echo running > build.status\\nsleep 15\\necho passed > build.status\\necho all 214 tests passed\\n' > build; echo queued > build.status",
    ),
    healthy(
        "bisect by hand",
        "`sh check` fails on main and passed at the first commit. Find the commit that broke it.",
        [
            ("", "git log --oneline | head -40"),
            ("", "git bisect start && git bisect bad && git bisect good $(git rev-list --max-parents=0 HEAD)"),
        ]
        + [("", "sh check && git bisect good || git bisect bad")] * 4
        + [("", "git bisect log | tail -3"), ("", "git bisect reset && git log -1 --format=%s $(git rev-list HEAD | tail -11 | head -1) > found; cat found")],
        "test -s found",
        "git init -q .; for n in $(seq 1 16); do echo $n > value; echo 'test $(cat value) -lt 11' > check; git add -A; git -c user.name=dev -c user.email=dev@localhost commit -qm \"Set the value to $n\"; done",
    ),
    healthy(
        "scroll through a log",
        "app.log is long. Read it part by part and tell me which request failed.",
        [("", "wc -l app.log")] + [("Next part.", f"sed -n '{n},{n + 39}p' app.log") for n in range(1, 480, 40)] + [("", "grep -n ERROR app.log | tee found")],
        "grep -q 'order 377' found",
        "for n in $(seq 1 480); do if [ $n = 377 ]; then echo \"09:$((n / 60)):$((n % 60)) ERROR order $n was lost: no stock\"; else echo \"09:$((n / 60)):$((n % 60)) INFO order $n was sent\"; fi; done > app.log",
    ),
    healthy(
        "the same change in every module",
        "Raise the version of every module under shop/ from 1.x to 2.x, testing each.",
        [("", "grep -rn 'return \"1' shop")]
        + [
            step
            for name in NAMES
            for step in ((f"Now {name}.", f"sed -i 's/return \"1\\./return \"2./' shop/{name}.py"), ("", f"python3 -m unittest tests.test_{name} 2>&1 | tail -3"))
        ],
        "! grep -rn 'return \"1' shop",
        MODULES,
    ),
    healthy(
        "try again until a service is up",
        "Fetch the list with sh ./fetch. The service may need a moment after its start.",
        [("", "sh ./fetch")] + [("Not up yet. I wait and try again.", "sleep 3; sh ./fetch")] * 4 + [("", "wc -l list.txt")],
        "test -s list.txt",
        "printf 'echo x >> tries\\nif [ $(wc -l < tries) -lt 5 ]; then echo \"connect to 127.0.0.1:8099: connection refused\" >&2; exit 7; fi\\nseq 1 40 > list.txt; echo fetched 40 entries\\n' > fetch",
    ),
    healthy(
        "work off the list of a linter",
        "sh ./lint reports problems. Fix them all.",
        [("", "sh ./lint")] + [step for n in range(1, 10) for step in (("", f"rm todo/{n}"), ("Check again.", "sh ./lint"))],
        "test -z \"$(ls todo)\"",
        "mkdir todo; for n in $(seq 1 9); do echo \"line $n is too long\" > todo/$n; done; printf 'n=$(ls todo | wc -l); echo \"$n problems left\"; [ $n = 0 ]\\n' > lint",
    ),
    healthy(
        "delete in batches",
        "Run sh ./purge until nothing old is left; it deletes 5000 rows at a time.",
        [("", "sh ./purge")] * 14,
        "test $(cat left) = 0",
        "echo 68211 > left; printf 'left=$(cat left); n=5000; [ $left -lt $n ] && n=$left; echo $((left - n)) > left; echo \"deleted $n rows, $((left - n)) left\"\\n' > purge",
        end="Nothing old is left.",
    ),
    healthy(
        "watch a rollout",
        "Run sh ./rollout until all 12 are ready.",
        [("Rolling out.", "sh ./rollout")] + [("Not all are ready, I look again in a moment.", "sleep 2; sh ./rollout")] * 11,
        "test $(cat ready) = 12",
        "echo 0 > ready; printf 'n=$(cat ready); n=$((n + 1)); echo $n > ready; echo \"$n of 12 updated replicas are available...\"; [ $n = 12 ] && echo done; true\\n' > rollout",
    ),
    healthy(
        "find where a setting is read",
        "Where is the time-out of the upload set? Find it.",
        [("", f"grep -rni '{word}' --include=*.py . | head") for word in ("timeout", "time_out", "upload", "deadline", "seconds", "limit", "wait")]
        + [("", "grep -rn 'TTL' . | head"), ("", "cat conf/transfer.ini"), ("", "echo conf/transfer.ini:3 > found")],
        "test -s found",
        SHOP + "\nmkdir conf; printf '[transfer]\\n; how long\\nTTL_MS = 30000\\n' > conf/transfer.ini",
    ),
    healthy(
        "review file by file",
        "Read every module and its test, then write review.md with a line about each.",
        [step for name in NAMES for step in (("", f"cat shop/{name}.py"), ("", f"cat tests/test_{name}.py"))]
        + [("", "for f in shop/*.py; do echo \"- $f: returns its version as text\"; done > review.md; wc -l review.md")],
        "test -s review.md",
        MODULES,
    ),
]

STUCK = [
    stuck("the same test again", "Make the tests pass.", [("", "cat shop/cart.py")] + [("Let me run the tests.", TEST)] * 14, start=2),
    stuck(
        "edits without effect",
        "Make the tests pass.",
        [("", "cat shop/cart.py")]
        + [step for n in range(10) for step in (("I see the problem now.", f"echo '# attempt {n}' >> shop/cart.py"), ("Run the tests.", TEST))],
        start=4,
    ),
    stuck(
        "there and back",
        "Make the tests pass.",
        [("", TEST)]
        + [step for _ in range(6) for step in (("", edit("amount + TAX", "amount - TAX")), ("", TEST), ("", edit("amount - TAX", "amount + TAX")), ("", TEST))],
        start=4,
    ),
    stuck(
        "searches that find nothing",
        "Find where the invoice is printed.",
        [
            ("Let me search.", f"grep -rn '{word}' shop tests")
            for word in "invoice Invoice INVOICE print_invoice printInvoice invoice_printer render_invoice bill Bill receipt Receipt voucher pdf to_pdf printer".split()
        ],
        start=2,
        check="test -s found",
    ),
    stuck(
        "denied by every route",
        "Deploy to staging with ./deploy.",
        [
            ("I try another way.", f"sh ./deploy {way}")
            for way in ("staging", "staging --force", "--target staging", "staging -v", "staging --user deploy", "staging --retry 3", "--env staging", "staging --no-verify")
            + ("staging --key id_rsa", "staging --key id_ed25519", "staging --sudo", "staging --yes", "STAGING", "stage")
        ],
        setup="printf 'echo \"deploy: permission denied (publickey)\" >&2; exit 255\\n' > deploy",
        check="test -s deployed",
        start=2,
    ),
    stuck("a service that has failed", "Wait until the service is up.", [("Let me check again.", "sleep 2; sh ./status")] * 16,
          setup="printf 'echo \"api: failed (exit code 137, out of memory)\"; exit 3\\n' > status", check="sh ./status", start=2),
    stuck("the same file in other ranges", "Explain what shop/cart.py does.",
          [("Let me look closer.", f"sed -n '{a},{b}p' shop/cart.py") for a, b in ((1, 16), (1, 12), (3, 16), (1, 8), (2, 10), (5, 16), (1, 15), (4, 14), (1, 16), (2, 16), (3, 12), (1, 14), (6, 16), (1, 10), (2, 12), (1, 16), (1, 13))],
          start=4),
    stuck("waits without waiting", "Tell me when the build has passed.", [("", "cat build.status")] * 14, setup="echo queued > build.status", check="grep -q passed build.status", start=2),
    stuck("a tool that is not there", "List the names in data.json.",
          [("", f"fq {how} data.json") for how in ("'.[].name'", "-r '.[].name'", "'.[] | .name'", "-c .", "'map(.name)'", "--raw '.[].name'", "'.. | .name?'", "-s .", "'keys'", "'length'", "'.[0]'", "'.[0].name'", "type", "'to_entries'")],
          setup="echo '[{\"name\": \"a\"}]' > data.json", check="test -s names", start=2),
    stuck("the same plan again", "Write a plan for the migration and carry it out.",
          [("I'll write a better plan.", f"printf '1. Read the code\\n2. Change the schema\\n3. Move the data\\n4. Test\\n' > plan_v{n}.md; cat plan_v{n}.md") for n in range(1, 15)],
          check="test -s migrated", start=2),
    stuck("installing what cannot be installed", "Install the dependencies and run the tests.",
          [("Let me try again.", f"sh ./install {how}") for how in ("", "--no-cache", "--upgrade", "--user", "-v", "--retries 5", "--index mirror", "--pre", "--force", "--isolated", "--prefer-binary", "--timeout 60", "--quiet", "--no-deps")],
          setup="printf 'echo \"ERROR: Could not find a version that satisfies the requirement paylib==9.1 (from versions: 1.0, 1.1)\"; exit 1\\n' > install", check="test -s installed", start=2),
]

TASKS = HEALTHY + STUCK
