"""Generated Jinja templates and the variables they see.

A template is a tree: Node("e", parts) is an expression, Node("s", parts) a statement or a piece of text; parts are strings and nodes.
str() gives the source. Expressions are mostly well typed, so that they get far before they fail, with a share of anything anywhere.
What no machine should compute is not generated: numbers that multiply are small or too large to try.
"""


class Node:
    def __init__(self, kind, *parts):
        self.kind, self.parts = kind, list(parts)

    def __str__(self):
        return "".join(map(str, self.parts))


def E(*parts):
    return Node("e", *parts)


def S(*parts):
    return Node("s", *parts)


WORDS = ["", "a", "b", "A", "ab", "abc", "hello world", "Hello World", "aXbXc", "x=1", "one two  three", " padded ", "\t tab\n", "l1\nl2\n\nl3\n", "a\r\nb\rc",
         "user", "assistant", "name", "text", "type", "0", "1", "42", "-7", "3.5", "1e3", " 12 ", "0x1F", "1_000", "0b11", "inf", "nan", "True", "None",
         "it's", "\"q\"", "'\"", "back\\slash", "<b>bold & \"q\"</b>", "&amp; &lt;i&gt;", "%s", "%d%%", "{}", "{0}", "{x}", "a,b,,c", "a.b.c", "--x--", "/path/to?q=1&r=é",
         "naïve", "Straße", "ÉCOLE", "ﬁn", "İx", "ΑΣ ΟΔΟΣ", "ǆ", "Ǆ", "ŉ", "ᾳ", "日本語 テキスト", "🙂 smile", "e\u0301", "x\u2028y", "x\x85y", "x\x1cy", "\xa0nb\xa0", "z\u200bw",
         "\u00bd", "\u00b2", "\u0663", "\u2160", "\x00", "\x7f", "\x1b[0m", "\ufeff", "don't stop", "foo-bar (baz) [qux] {x} <y>", "http://example.com/a?b=c", "mail@example.org",
         "www.example.org, (see https://x.org/y).", "The quick brown fox jumps over the lazy dog, then rests for a while.", "verylongwordwithoutanyspaces_and_more_of_it",
         "hyphen-ated words-and-more text", "<p>para</p><!-- c --> x  y", "<a href=\"x\">l</a>&nbsp;", "1:2", "k", "v"]
INTS = [0, 1, 2, 3, -1, -2, 5, 7, 10, -13, 42, 100, 255, 2**31, 2**53 + 1, -2**63, 2**64 - 1, 12345678901234567890]
FLOATS = [0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 3.14159, 1e16, 1e22, 123456789.125, 1e-5, 1e-7, -0.0, 1e100, 5e-324, 2.675, 1234567.891, 99.995, 1e15]

# The variables of every context, by the type they have there.
VARIABLES = {
    "str": ["s", "t", "u", "v"], "int": ["n", "m"], "float": ["f", "g"], "bool": ["b"], "list": ["l", "k"], "ints": ["li"], "strs": ["ls"], "dict": ["d", "dd"],
    "records": ["r"], "any": ["q", "p"], "none": ["z"], "undefined": ["nope", "gone"],
}


def make_value(rng, depth=2):
    pick = rng.random()
    if depth and pick < 0.15:
        return [make_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if depth and pick < 0.3:
        return {rng.choice(WORDS): make_value(rng, depth - 1) for _ in range(rng.randrange(4))}
    return rng.choice([rng.choice(WORDS), rng.choice(WORDS), rng.choice(INTS), rng.choice(FLOATS), True, False, None])


def make_context(rng):
    words = lambda n: [rng.choice(WORDS) for _ in range(n)]
    c = {name: rng.choice(WORDS) for name in "stuv"}
    c.update(n=rng.choice(INTS[:12]), m=rng.choice(INTS), f=rng.choice(FLOATS), g=rng.choice(FLOATS), b=rng.random() < 0.5, z=None)
    c.update(l=[make_value(rng) for _ in range(rng.randrange(5))], k=[make_value(rng) for _ in range(rng.randrange(4))])
    c.update(li=[rng.choice(INTS[:12]) for _ in range(rng.randrange(6))], ls=words(rng.randrange(6)))
    c["d"] = {key: make_value(rng) for key in rng.sample(["name", "type", "a", "b", "items", "keys", "content", "k", "x y", "é", "0", "", "update"], rng.randrange(6))}
    c["dd"] = {rng.choice(WORDS): rng.choice(INTS[:12]) for _ in range(rng.randrange(5))}
    c["r"] = [dict({"name": rng.choice(WORDS), "age": rng.choice(INTS[:8]), "tags": words(rng.randrange(3)), "in": {"x": rng.choice(INTS[:4])}},
                   **({"opt": make_value(rng, 1)} if rng.random() < 0.5 else {})) for _ in range(rng.randrange(5))]
    c["q"], c["p"] = make_value(rng, 3), make_value(rng, 3)
    c["tree"] = [{"n": 1, "c": [{"n": 2, "c": []}, {"n": rng.choice(INTS[:5]), "c": [{"n": 4, "c": []}]}]}, {"n": 5, "c": []}]
    c["messages"] = [{"role": rng.choice(["system", "user", "assistant", "tool"]),
                      "content": rng.choice([rng.choice(WORDS), None, [{"type": "text", "text": rng.choice(WORDS)}, {"type": "image"}]])} for _ in range(rng.randrange(4))]
    return c


def quote(rng, text):
    """A literal for text: as it is where it can be, with escapes for the rest, in either kind of quotes."""
    mark = rng.choice("'\"")
    out = ""
    for c in text:
        if c in "\\" + mark:
            out += "\\" + c
        elif c == "\r" or (c in "\n\t" and rng.random() < 0.7):
            out += {"\r": "\\r", "\n": "\\n", "\t": "\\t"}[c]
        elif c != "\n" and (ord(c) < 32 or rng.random() < 0.03):
            out += f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" if ord(c) < 65536 else f"\\U{ord(c):08x}"
        else:
            out += c
    return mark + out + mark


STR_METHODS = [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()", "strip({s})", "lstrip({s})", "rstrip({s})", "strip(none)",
    "replace({s}, {s})", "replace({s}, {s}, {n})", "center({w})", "center({w}, {c})", "ljust({w})", "rjust({w}, {c})", "zfill({w})", "expandtabs()", "expandtabs({w})",
    "expandtabs(tabsize={w})", "removeprefix({s})", "removesuffix({s})", "join({L})", "join({s})", "format({x}, {x}, x={x})", "format_map({d})", "format({x})",
]
STR_TO_LIST = ["split()", "split({s})", "split({s}, {n})", "split(none, {n})", "split(sep={s})", "split(maxsplit={n})", "rsplit()", "rsplit({s}, {n})", "rsplit(none, {n})", "splitlines()",
               "splitlines(true)", "splitlines(keepends={b})", "partition({s})", "rpartition({s})"]
STR_TO_INT = ["find({s})", "rfind({s})", "find({s}, {n})", "find({s}, {n}, {n})", "index({s})", "rindex({s}, {n})", "count({s})", "count({s}, {n}, {n})"]
STR_TO_BOOL = ["startswith({s})", "endswith({s})", "startswith(({s}, {s}))", "startswith({s}, {n})", "endswith({s}, {n}, {n})", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()",
               "islower()", "istitle()", "isnumeric()", "isdecimal()", "isascii()", "isidentifier()", "isprintable()"]
STR_FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "trim({s})", "trim(chars={s})", "replace({s}, {s})", "replace({s}, {s}, {n})", "replace(old={s}, new={s}, count=1)", "center({w})", "center",
    "indent", "indent({w})", "indent({s})", "indent(first=true, blank=true)", "indent(width={w}, first={b})", "truncate({w})", "truncate({w}, true)", "truncate({w}, {b}, '…')", "truncate(9, end={s}, leeway={n})",
    "wordwrap({w1})", "wordwrap", "wordwrap({w1}, {b})", "wordwrap({w1}, break_on_hyphens={b})", "wordwrap({w1}, false, '|', {b})", "striptags", "escape", "e", "forceescape", "safe", "string",
    "urlencode", "urlize", "urlize({w1})", "urlize(nofollow=true)", "urlize(target='_blank', rel='x y')", "urlize(12, true, none, none, ['ftp:'])", "first", "last", "reverse", "pprint", "format({x}, {x})", "format(x={x})", "default({x})", "d", "tojson",
]
LIST_FILTERS = ["list", "sort", "sort(reverse=true)", "sort(case_sensitive={b})", "unique|list", "unique({b})|list", "reverse|list", "batch({n1})|list", "batch({n1}, {x})|list", "slice({n1})|list",
                "slice({n1}, {x})|list", "map('string')|list", "map('upper')|list", "map('default', {x})|list", "map(attribute={a})|list", "map(attribute={a}, default={x})|list", "map('length')|list", "map('int')|list",
                "map('tojson')|list", "map('replace', {s}, {s})|list", "map('trim')|map('title')|list", "select|list", "reject|list", "select('string')|list", "reject('none')|list", "select('odd')|list", "select('gt', {n})|list", "selectattr({a})|list",
                "selectattr({a}, 'equalto', {x})|list", "rejectattr({a})|list", "rejectattr({a}, 'defined')|list", "selectattr({a}, 'in', {L})|list", "select('in', {L})|list", "sort(attribute={a})", "groupby({a})",
                "groupby({a}, default={x})", "groupby(attribute={a}, case_sensitive={b})", "map('list')|list", "map('first')|list", "list|reverse|list", "map(attribute='0')|list", "map('dictsort')|list", "sort(attribute='name,age')", "select('mapping')|map('items')|map('list')|list"]
LIST_TO_ANY = ["first", "last", "min", "max", "min(attribute={a})", "max(case_sensitive={b})", "sum", "sum(start={n})", "sum(attribute={a})", "sum(attribute={a}, start={x})", "join", "join({s})", "join({s}, attribute={a})", "join(d={s})", "length", "count",
               "tojson", "tojson(indent={n1})", "tojson(indent={s})", "tojson(separators=({s}, {s}))", "tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(true, 1, none, {b})", "string", "pprint", "default({x}, true)", "map(attribute={a})|join({s})", "groupby({a})|map(attribute='list')|map('length')|list"]
DICT_TO_LIST = ["items()|list", "keys()|list", "values()|list", "items()", "keys()", "values()", "copy().items()|list"]
DICT_FILTERS_TO_LIST = ["dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(false, 'key', true)", "dictsort(reverse={b})", "items|list", "list", "sort", "map('upper')|list"]
DICT_TO_ANY = ["get({s})", "get({s}, {x})", "get({a})"]
DICT_FILTERS = ["tojson", "tojson(indent=2)", "tojson(indent=2, sort_keys={b})", "length", "string", "xmlattr", "xmlattr({b})", "pprint", "urlencode", "first", "last", "join({s})", "list|length", "attr({a})"]
NUMBER_FILTERS = ["abs", "round", "round({n})", "round({n}, 'ceil')", "round({n1}, 'floor')", "round(precision={n1}, method='common')", "int", "float", "string", "filesizeformat", "filesizeformat(true)", "tojson", "default({x})", "pprint"]
TO_NUMBER = ["int", "int({n})", "int(default={x})", "int({n}, 16)", "int(base=0)", "int(base=8)", "float", "float({x})", "wordcount", "length"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "false", "callable", "escaped", "lower", "upper", "odd", "even", "divisibleby {n}",
         "divisibleby({n})", "in {L}", "in({s})", "eq {x}", "equalto({x})", "==({x})", "ne {x}", "gt {n}", "greaterthan({x})", "ge {n}", "lt {n}", "lessthan {n}", "le({n})", "sameas {x}", "sameas none", "filter", "test", "eq({x}) is true"]
PERCENTS = ["%s", "%d", "%5d", "%-5d|", "%05d", "%+d", "% d", "%x", "%#x", "%X", "%o", "%#o", "%c", "%r", "%a", "%10s|", "%-10s|", "%.3s", "%f", "%.2f", "%8.3f", "%-8.1f|", "%08.2f", "%e", "%.3E", "%g", "%G", "%#g", "%i", "%u", "%%", "%(name)s", "%(a)d", "%*d", "%.*f", "%5.1f%%", "%", "%y", "%ld", "%+.1e", "%#.3x", "%-+6d|"]
FORMATS = ["{}", "{0}", "{1}", "{x}", "{!r}", "{!s}", "{!a}", "{:>8}", "{:<8}|", "{:^9}", "{:*^9}", "{:é>5}", "{:5}", "{:05}", "{:+}", "{: }", "{:d}", "{:x}", "{:#x}", "{:#b}", "{:o}", "{:X}", "{:c}", "{:,}", "{:_}", "{:,.2f}", "{:.3}", "{:.2f}", "{:10.3f}", "{:e}", "{:g}", "{:G}",
           "{:%}", "{:.1%}", "{:n}", "{:s}", "{:10s}|", "{:.2s}", "{:=+8}", "{0.real}", "{0[0]}", "{x[name]}", "{0.__class__}", "{x.__init__}", "{{}}", "{{{}}}", "{:{}}", "{:>{}}", "{0:{1}}", "{", "}", "{0!r:>12}", "{:#_x}", "{:_b}", "{:010,}", "{:z}", "{:1$}", "{!x}", "{:+.1e}", "{:-<7.3}", "{.real}", "{[0]}", "{x!r}"]
STRFTIMES = ["%Y-%m-%d", "%d %B %Y", "%H:%M:%S", "%A %a %b %j %U %W %V %G %u %w", "%-d/%-m", "%y %C %e %I %p %%", "%c|%x|%X|%D|%F|%T|%R", "%h%n%t%z%Z", "x", "", "%d%é"]
GLOBALS = ["range({n1})", "range({n}, {n})", "range({n}, {n}, {n})", "dict(a={x}, b={x})", "dict({d}, c={x})", "dict({pairs})", "strftime_now({time})", "cycler({x}, {x}).next()", "namespace(a={x}).a", "joiner({s})()", "namespace({d}).name", "range({n1})|list"]


class Grammar:
    def __init__(self, rng, chaos=0.04):
        self.rng, self.chaos = rng, chaos
        self.names = ["a", "c", "x", "y"]  # set somewhere in the template, or not
        self.macros = []
        self.in_loop = self.in_macro = 0
        self.controls = False

    # ---- expressions

    def one_of(self, *makers):
        return self.rng.choice(makers)()

    def fill(self, form):
        """A form with {holes} as parts of a node."""
        parts, rest = [], form
        while "{" in rest:
            head, rest = rest.split("{", 1)
            hole, rest = rest.split("}", 1)
            parts += [head, self.hole(hole)]
        return parts + [rest]

    def hole(self, hole):
        rng = self.rng
        if hole == "s":
            return self.literal_str() if rng.random() < 0.7 else self.str(1)
        if hole == "n":
            return E(str(rng.choice([0, 1, 2, 3, 4, -1, -2, 7]))) if rng.random() < 0.8 else self.int(1)
        if hole == "n1":
            return E(str(rng.choice([1, 2, 3, 4])))
        if hole in ("w", "w1"):
            return E(str(rng.choice([0, 1, 3, 5, 8, 12, 20][hole == "w1":])))
        if hole == "c":
            return E(quote(rng, rng.choice(["*", "é", "-", "ab", " ", "0"])))
        if hole == "b":
            return E(rng.choice(["true", "false", "b", "0", "none"]))
        if hole == "x":
            return self.any(1)
        if hole == "L":
            return self.list(1)
        if hole == "d":
            return self.dict(1)
        if hole == "a":
            return E(quote(rng, rng.choice(["name", "age", "tags", "in.x", "opt", "0", "tags.0", "nope", "type", "role", "content"])))
        if hole == "pairs":
            return E(rng.choice(["[('a', 1), ('b', 2)]", "d.items()", "[['k', n]]", "[(1, 2), (1.0, 3)]", "[]", "ls", "zip"]))
        if hole == "time":
            return E(quote(rng, rng.choice(STRFTIMES)))
        raise KeyError(hole)

    def variable(self, kind):
        return E(self.rng.choice(VARIABLES[kind]))

    def literal_str(self):
        rng = self.rng
        text = quote(rng, rng.choice(WORDS))
        return E(text + " " + quote(rng, rng.choice(WORDS))) if rng.random() < 0.03 else E(text)

    def paren(self, node):
        return E("(", node, ")")

    def operand(self, node):
        return self.paren(node) if self.rng.random() < 0.6 else node

    def postfix(self, node):
        """Something that .x, [x], |x and is may follow without changing its own meaning."""
        text = str(node)
        return node if text.isidentifier() or (text[0] in "'\"" and len(node.parts) == 1) else self.paren(node)

    def str(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.25:
            return self.literal_str() if rng.random() < 0.5 else self.variable("str")
        d = depth - 1
        return self.one_of(
            lambda: E(self.postfix(self.str(d)), ".", *self.fill(rng.choice(STR_METHODS))),
            lambda: E(self.postfix(self.str(d)), ".", *self.fill(rng.choice(STR_METHODS))),
            lambda: E(self.postfix(self.str(d)), "|", *self.fill(rng.choice(STR_FILTERS))),
            lambda: E(self.postfix(self.str(d)), " | ", *self.fill(rng.choice(STR_FILTERS))),
            lambda: E(self.operand(self.str(d)), " + ", self.operand(self.str(d))),
            lambda: E(self.operand(self.any(d)), " ~ ", self.operand(self.any(d))),
            lambda: E(self.postfix(self.str(d)), self.subscript(d)),
            lambda: E(self.postfix(self.any(d)), "|", rng.choice(["string", "tojson", "pprint"])),
            lambda: E(self.postfix(self.list(d)), "|join(", self.literal_str(), ")"),
            lambda: E(self.operand(self.str(d)), " * ", str(rng.choice([0, 1, 2, 3, -1]))),
            lambda: E(quote(rng, " ".join(rng.choice(PERCENTS) for _ in range(rng.randrange(1, 4)))), " % ", self.percent_values(d)),
            lambda: E(quote(rng, "|".join(rng.choice(FORMATS) for _ in range(rng.randrange(1, 3)))), ".format(", self.any(d), ", ", self.any(d), ", x=", self.any(d), ")"),
            lambda: E(quote(rng, rng.choice(PERCENTS)), "|format(", self.any(d), ")"),
        )

    def percent_values(self, d):
        rng = self.rng
        if rng.random() < 0.3:
            return self.postfix(self.number(d) if rng.random() < 0.7 else self.any(d))
        if rng.random() < 0.15:
            return E(rng.choice(["d", "r[0]", "{'name': s, 'a': n}"]))
        return E("(", *sum([[self.number(d) if rng.random() < 0.6 else self.any(d), ", "] for _ in range(rng.randrange(1, 4))], []), ")")

    def subscript(self, d):
        rng = self.rng
        small = lambda: E(str(rng.choice([0, 1, 2, 3, -1, -2, -4, 9]))) if rng.random() < 0.85 else self.int(d)
        if rng.random() < 0.4:
            return E("[", small(), "]")
        part = lambda: small() if rng.random() < 0.6 else E("")
        if rng.random() < 0.5:
            return E("[", part(), ":", part(), "]")
        return E("[", part(), ":", part(), ":", part(), "]")

    def int(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            if rng.random() < 0.6:
                return self.variable("int")
            return E(rng.choice(["0", "1", "2", "3", "7", "10", "100", "1_000", "0x1F", "0b101", "0o17", "18446744073709551615", "007"[2:]]))
        d = depth - 1
        return self.one_of(
            lambda: E(self.operand(self.int(d)), rng.choice([" + ", " - ", " * ", " // ", " % ", "+", "-"]), self.operand(self.int(d))),
            lambda: E(self.operand(self.int(d)), " ** ", str(rng.choice([0, 1, 2, 3]))),
            lambda: E(rng.choice(["-", "+", "- "]), self.operand(self.int(d))),
            lambda: E(self.postfix(self.str(d)), ".", *self.fill(rng.choice(STR_TO_INT))),
            lambda: E(self.postfix(self.any(d)), "|", *self.fill(rng.choice(TO_NUMBER))),
            lambda: E(self.postfix(self.list(d)), rng.choice(["|length", "|count", "|sum", "|min", "|max"])),
            lambda: E(self.postfix(self.list(d)), ".", *self.fill(rng.choice(["index({x})", "count({x})"]))),
            lambda: E(self.postfix(self.int(d)), rng.choice([".bit_length()", ".real", ".numerator", ".conjugate()", ".imag", ".denominator"])),
            lambda: self.paren(E(self.int(d), " if ", self.bool(d), " else ", self.int(d))),
        )

    def number(self, depth):
        rng = self.rng
        if rng.random() < 0.5:
            return self.int(depth)
        if depth <= 0 or rng.random() < 0.3:
            return self.variable("float") if rng.random() < 0.5 else E(rng.choice(["0.5", "1.0", "2.5", "1e3", "1.5e-3", "3.14159", "1_0.5", "1E+2"]))
        d = depth - 1
        return self.one_of(
            lambda: E(self.operand(self.number(d)), rng.choice([" + ", " - ", " * ", " / ", " // ", " % "]), self.operand(self.number(d))),
            lambda: E(self.operand(self.number(d)), " ** ", rng.choice(["2", "0.5", "-1", "0", "(-2)", "1.5"])),
            lambda: E(self.postfix(self.number(d)), "|", *self.fill(rng.choice(NUMBER_FILTERS))),
            lambda: E("-", self.operand(self.number(d))),
            lambda: E(self.postfix(self.number(d)), rng.choice([".real", ".imag", ".is_integer()", ".conjugate()"])),
        )

    def bool(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return E(rng.choice(["b", "true", "false", "True", "False"]))
        d = depth - 1
        compare = lambda: rng.choice([" == ", " != ", " < ", " <= ", " > ", " >= "])
        return self.one_of(
            lambda: E(self.operand(self.number(d)), compare(), self.operand(self.number(d))),
            lambda: E(self.operand(self.str(d)), compare(), self.operand(self.str(d))),
            lambda: E(self.operand(self.any(d)), rng.choice([" == ", " != "]), self.operand(self.any(d))),
            lambda: E(self.operand(self.number(d)), compare(), self.operand(self.number(d)), compare(), self.operand(self.number(d))),
            lambda: E(self.operand(self.any(d)), rng.choice([" in ", " not in "]), self.operand(self.list(d))),
            lambda: E(self.operand(self.str(d)), rng.choice([" in ", " not in "]), self.operand(self.str(d))),
            lambda: E(self.operand(self.str(d)), " in ", self.operand(self.dict(d))),
            lambda: E(self.postfix(self.any(d)), rng.choice([" is ", " is not "]), *self.fill(rng.choice(TESTS))),
            lambda: E(self.postfix(self.any(d)), rng.choice([" is ", " is not "]), *self.fill(rng.choice(TESTS))),
            lambda: E(self.operand(self.any(d)), rng.choice([" and ", " or "]), self.operand(self.any(d))),
            lambda: E("not ", self.operand(self.any(d))),
            lambda: E(self.postfix(self.str(d)), ".", *self.fill(rng.choice(STR_TO_BOOL))),
            lambda: E(self.operand(self.list(d)), compare(), self.operand(self.list(d))),
        )

    def list(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            return self.variable(rng.choice(["list", "ints", "strs", "records"]))
        d = depth - 1
        items = lambda maker: sum([[maker(d), ", "] for _ in range(rng.randrange(4))], [])[:-1]
        return self.one_of(
            lambda: E("[", *items(self.any), "]"),
            lambda: E("[", *items(self.int), "]"),
            lambda: E("(", self.any(d), ",", *items(self.any), ")"),
            lambda: E(self.postfix(self.list(d)), "|", *self.fill(rng.choice(LIST_FILTERS))),
            lambda: E(self.postfix(self.list(d)), " | ", *self.fill(rng.choice(LIST_FILTERS))),
            lambda: E(self.variable("records"), "|", *self.fill(rng.choice(LIST_FILTERS))),
            lambda: E(self.operand(self.list(d)), " + ", self.operand(self.list(d))),
            lambda: E(self.postfix(self.list(d)), self.subscript(d)),
            lambda: E(self.postfix(self.str(d)), ".", *self.fill(rng.choice(STR_TO_LIST))),
            lambda: E(self.postfix(self.dict(d)), ".", rng.choice(DICT_TO_LIST)),
            lambda: E(self.postfix(self.dict(d)), "|", *self.fill(rng.choice(DICT_FILTERS_TO_LIST))),
            lambda: E("range(", self.hole("n"), ")"),
            lambda: E(self.postfix(self.str(d)), "|list"),
            lambda: E(self.operand(self.list(d)), " * ", str(rng.choice([0, 1, 2]))),
        )

    def dict(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.4:
            return self.variable("dict")
        d = depth - 1
        key = lambda: self.str(0) if rng.random() < 0.8 else self.one_of(lambda: self.number(0), lambda: E("true"), lambda: E("(1, 'k')"), lambda: E("none"))
        return self.one_of(
            lambda: E("{", *sum([[key(), ": ", self.any(d), ", "] for _ in range(rng.randrange(4))], [])[:-1], "}"),
            lambda: E("dict(", self.dict(d), ", a=", self.any(d), ")"),
            lambda: E("dict(a=", self.any(d), ", name=", self.any(d), ")"),
            lambda: E(self.postfix(self.dict(d)), ".copy()"),
            lambda: E("r[", self.hole("n"), "]"),
        )

    def any(self, depth):
        rng = self.rng
        if depth <= 0:
            pick = rng.random()
            if pick < 0.1:
                return E(rng.choice(self.names))
            if pick < 0.14:
                return self.variable("undefined")
            if pick < 0.18:
                return E(rng.choice(["none", "None", "z"]))
            return self.one_of(lambda: self.str(0), lambda: self.int(0), lambda: self.number(0), lambda: self.variable("any"), lambda: self.list(0), lambda: self.dict(0))
        d = depth - 1
        return self.one_of(
            lambda: self.str(depth), lambda: self.str(depth), lambda: self.number(depth), lambda: self.bool(depth), lambda: self.list(depth), lambda: self.dict(depth), lambda: self.any(0),
            lambda: E(self.postfix(self.dict(d)), ".", rng.choice(["name", "type", "a", "b", "items", "update", "nope", "0", "age", "in", "keys"])),
            lambda: E(self.postfix(self.any(d)), "[", self.any(d), "]"),
            lambda: E(self.postfix(self.dict(d)), ".", *self.fill(rng.choice(DICT_TO_ANY))),
            lambda: E(self.postfix(self.list(d)), "|", *self.fill(rng.choice(LIST_TO_ANY))),
            lambda: E(self.postfix(self.dict(d)), "|", *self.fill(rng.choice(DICT_FILTERS))),
            lambda: self.paren(E(self.any(d), " if ", self.bool(d))),
            lambda: self.paren(E(self.any(d), " if ", self.bool(d), " else ", self.any(d))),
            lambda: E(*self.fill(rng.choice(GLOBALS))),
            lambda: self.call(d),
        )

    def call(self, d):
        if not self.macros:
            return E(*self.fill(self.rng.choice(GLOBALS)))
        return E(self.rng.choice(self.macros), "(", *self.arguments(d), ")")

    def arguments(self, d):
        rng, parts = self.rng, []
        for _ in range(rng.randrange(3)):
            parts += [self.any(d), ", "]
        if rng.random() < 0.3:
            parts += [rng.choice("abxy"), "=", self.any(d), ", "]
        if rng.random() < 0.06:
            parts += ["*", self.list(0), ", "]
        if rng.random() < 0.06:
            parts += ["**", self.dict(0), ", "]
        return parts[:-1]

    def expression(self, depth=None):
        rng = self.rng
        depth = rng.choice([1, 2, 2, 3]) if depth is None else depth
        if rng.random() < self.chaos:  # operators between anything, without parentheses
            operators = [" + ", " - ", " * ", " / ", " // ", " % ", " ~ ", " and ", " or ", " == ", " < ", " in ", " not in ", " is ", "|", " if ", ".", " is not "]
            parts = [self.any(1)]
            for _ in range(rng.randrange(1, 4)):
                op = rng.choice(operators)
                right = {" is ": lambda: E(rng.choice(TESTS[:16])), " is not ": lambda: E(rng.choice(TESTS[:16])), "|": lambda: E(rng.choice(["upper", "length", "list", "string", "int", "abs"])),
                         ".": lambda: E(rng.choice(["x", "upper()", "0", "items"]))}.get(op, lambda: self.any(0))()
                parts += [op, right]
            return E(*parts)
        return self.any(depth)

    # ---- statements

    def space(self):
        return self.rng.choice(["", "", "", "\n", "  \n", " ", "\n\n  ", "\t", "\n  "])

    def tag(self, *parts):
        rng = self.rng
        left, right = rng.choice(["{%", "{%", "{%-", "{%+"]), rng.choice(["%}", "%}", "-%}", "+%}"])
        return Node("t", left, " ", *parts, " ", right, self.space())

    def text(self):
        rng = self.rng
        return rng.choice(["text", "  two  words  ", "\n", "line\n", "  \n", "a { b } c", "{ {", "%}", "}}", "#}", "-", "é🙂", "<x>", "\n\n", "", "tail  ", "\t"])

    def output(self):
        rng = self.rng
        return S(rng.choice(["{{", "{{", "{{", "{{-", "{{-", "{{+"]), " ", self.expression(), " ", rng.choice(["}}", "}}", "-}}"]), self.space())

    def target(self):
        rng = self.rng
        return rng.choice(self.names) if rng.random() < 0.85 else "%s, %s" % tuple(rng.sample(self.names, 2))

    def body(self, depth, n=None):
        parts = []
        for _ in range(self.rng.randrange(1, 4) if n is None else n):
            parts += [self.statement(depth - 1), self.text() if self.rng.random() < 0.5 else ""]
        return S(*parts)

    def statement(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            return self.one_of(self.output, self.output, lambda: S(self.text()), self.set, self.names_out)
        return self.one_of(
            lambda: self.loop(depth), lambda: self.loop(depth), lambda: self.branch(depth), lambda: self.branch(depth), self.set, self.output, lambda: self.set_block(depth),
            lambda: self.macro(depth), lambda: self.macro(depth), lambda: self.call_block(depth), lambda: self.with_block(depth), lambda: self.filter_block(depth), self.raw, self.comment, self.namespace, self.names_out,
            lambda: self.tree(depth), lambda: self.generation(depth), self.loop_part, lambda: self.block(depth), self.loop_part, lambda: self.odd(depth),
        )

    def names_out(self):
        return S("{{ ", self.rng.choice(self.names), " }}|")

    def set(self):
        rng = self.rng
        if rng.random() < 0.1:
            return S(self.tag("set ", "%s, %s" % tuple(rng.sample(self.names, 2)), " = ", self.any(1), ", ", self.any(1)))
        return S(self.tag("set ", self.target() if rng.random() < 0.1 else rng.choice(self.names), " = ", self.expression()))

    def namespace(self):
        rng = self.rng
        return S(self.tag("set ns = namespace(", rng.choice(["", "x=0", "x=[], y=''", "d", "{'x': 1}"]), ")"), self.tag("set ns.", rng.choice("xy"), " = ", self.expression(1)),
                 self.tag("for i in ", self.list(1)), self.tag("set ns.", rng.choice("xy"), " = ", rng.choice(["ns.x ~ i", "i", "loop.index", "(ns.x or 0) + 1"])), self.tag("endfor"), "{{ ns.x }},{{ ns.y }}")

    def set_block(self, depth):
        rng = self.rng
        return S(self.tag("set ", rng.choice(self.names), rng.choice(["", "", " | upper", " | trim | length", "|replace('a', 'b')"])), self.body(depth), self.tag("endset"))

    def loop(self, depth):
        rng = self.rng
        target, items = rng.choice([(rng.choice(self.names), self.list(1)), (rng.choice(self.names), self.any(1)), ("a, c", self.dict(1)), ("i", E("range(", self.hole("n"), ")")), ("x, y", E(self.postfix(self.dict(1)), ".items()")),
                                    ("x, y", E(self.postfix(self.dict(1)), "|dictsort")), ("message", E("messages")), ("x", E("r|groupby('name')"))])
        test = ["", ""] if rng.random() < 0.75 else [" if ", self.bool(1) if rng.random() < 0.5 else E(target.split(",")[0], rng.choice([" is defined", "", " is not none", " != 1"]))]
        self.in_loop += 1
        body = self.body(depth)
        self.in_loop -= 1
        parts = [self.tag("for ", target, " in ", items, *test), body]
        if rng.random() < 0.25:
            parts += [self.tag("else"), self.body(depth - 1, 1)]
        return S(*parts, self.tag("endfor"))

    def loop_part(self):
        rng = self.rng
        if not self.in_loop:
            return self.output()
        if rng.random() < 0.3:
            return S(self.tag("if ", rng.choice(["loop.index > 1", "loop.first", "loop.last", "b", "loop.index0 == 2"])), self.tag(rng.choice(["break", "continue"])), self.tag("endif"))
        return S("{{ ", rng.choice(["loop.index", "loop.index0", "loop.revindex", "loop.revindex0", "loop.first", "loop.last", "loop.length", "loop.previtem", "loop.nextitem", "loop.depth", "loop.depth0", "loop.cycle('x', 'y')",
                                    "loop.changed(1)", "loop.changed(loop.index // 2)", "loop.previtem is defined", "loop.nextitem|default('end')", "loop.cycle()", "loop.nope", "loop|length", "loop"]), " }};")

    def tree(self, depth):
        rng = self.rng
        return S(self.tag("for x in tree recursive"), "<{{ x.n }}", "{{ ", rng.choice(["loop.depth", "loop.index", "loop.length", "x.c|length", "loop.depth0 ~ loop.last"]), " }}", self.statement(depth - 2),
                 self.tag("if x.c"), "{{ loop(x.c)", rng.choice(["", "|trim", "|upper"]), " }}", self.tag("endif"), ">", self.tag("endfor"))

    def branch(self, depth):
        rng = self.rng
        parts = [self.tag("if ", self.condition()), self.body(depth)]
        for _ in range(rng.choice([0, 0, 1, 2])):
            parts += [self.tag("elif ", self.condition()), self.body(depth - 1, 1)]
        if rng.random() < 0.5:
            parts += [self.tag("else"), self.body(depth - 1, 1)]
        return S(*parts, self.tag("endif"))

    def condition(self):
        return self.bool(2) if self.rng.random() < 0.7 else self.expression(1)

    def macro(self, depth):
        rng = self.rng
        name = rng.choice(["m1", "m2", "m3"])
        params = rng.choice([[], ["a"], ["a", "x=1"], ["x", "y=x"], ["x=[]", "y='d'"], ["a", "c=a ~ '!'"], ["x", "caller=none"]])
        in_loop, self.in_loop = self.in_loop, 0
        self.in_macro += 1
        body = self.body(depth, rng.choice([1, 1, 2]))
        self.in_macro -= 1
        self.in_loop = in_loop
        extra = rng.choice(["", "", "", "{{ varargs }}", "{{ kwargs }}", "{{ caller() if caller }}", "{{ caller(1) }}", "{{ varargs|length ~ kwargs|tojson }}", "{% for v in varargs %}{{ v }},{% endfor %}"])
        if name not in self.macros:
            self.macros.append(name)
        parts = [self.tag("macro ", name, "(", ", ".join(params), ")"), body, extra, self.tag("endmacro")]
        if rng.random() < 0.7:
            parts += ["{{ ", name, "(", *self.arguments(1), ") }}"]
        if rng.random() < 0.15:
            parts += ["{{ ", name, ".", rng.choice(["name", "arguments", "catch_kwargs", "catch_varargs", "caller", "nope"]), " }}"]
        return S(*parts)

    def call_block(self, depth):
        rng = self.rng
        if not self.macros:
            return self.macro(depth)
        head = rng.choice(["call ", "call ", "call(x) ", "call(x, y=2) "])
        return S(self.tag(head, rng.choice(self.macros), "(", *self.arguments(0), ")"), self.body(depth, 1), self.tag("endcall"))

    def with_block(self, depth):
        rng = self.rng
        head = rng.choice([["a = ", self.expression(1)], ["x = ", self.any(1), ", y = x"], ["a = c, c = ", self.any(0)], []])
        return S(self.tag("with ", *head), self.body(depth), self.tag("endwith"))

    def filter_block(self, depth):
        return S(self.tag("filter ", self.rng.choice(["upper", "trim", "replace('a', 'b')", "indent(2)", "length", "title|trim", "escape", "tojson", "truncate(9)", "striptags", "wordwrap(10)"])), self.body(depth), self.tag("endfilter"))

    def generation(self, depth):
        return S(self.tag("generation"), self.body(depth), self.tag("endgeneration"))

    def block(self, depth):
        rng = self.rng
        name = "block%d" % rng.randrange(10**6)
        return S(self.tag("block ", name, rng.choice(["", "", "", " scoped"])), self.body(depth), self.tag("endblock", rng.choice(["", " " + name])), rng.choice(["", "", "{{ self.%s() }}" % name]))

    def odd(self, depth):
        rng = self.rng
        loader = rng.choice(["include 'x'", "import 'x' as a", "from 'x' import a, c as x", "include x ignore missing", "extends 'x'", "from x import y with context", "include ['a', 'b'] without context"])
        return self.one_of(lambda: S(self.tag("if ", self.condition()), self.tag(loader), self.tag("endif")), lambda: S(self.tag("autoescape false"), self.body(depth), self.tag("endautoescape")))

    def raw(self):
        rng = self.rng
        return S(rng.choice(["{% raw %}", "{%- raw -%}", "{% raw -%}", "{%+ raw %}"]), rng.choice([" {{ x }} ", "{% if %}", "\n{# c #}\n", "", "  a  "]), rng.choice(["{% endraw %}", "{%- endraw -%}", "{% endraw -%}", "{% endraw +%}"]), self.space())

    def comment(self):
        rng = self.rng
        return S(rng.choice(["{#", "{#-", "{#+"]), rng.choice([" c ", "", " {{ x }} ", "\n", " {% endif %} "]), rng.choice(["#}", "-#}", "+#}"]), self.space())

    def template(self):
        return S(*sum([[self.statement(3), self.rng.choice(["", "\n", self.text()])] for _ in range(self.rng.randrange(1, 6))], []))
