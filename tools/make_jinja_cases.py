#!/usr/bin/env python3
"""Writes tests/data/templates/cases.json: small templates, one corner of the language each, with what Jinja2 3.1.6 makes of
them when it is set up as transformers sets it up. tests/unit/text/test_jinja.c renders them and compares.

    tools/make_jinja_cases.py            (needs jinja2 3.1.6; deterministic: running it again changes nothing)

An entry is [source, text] or [source, null] where Jinja2 raises an error. All share the variables below."""
import json
import pathlib
import sys

import jinja2

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests" / "data" / "templates" / "cases.json"
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
import chat_environment

VARIABLES = {
    "s": "hello world", "u": "naïve 🙂 Straße", "empty": "", "sp": "  \t padded \n ", "lines": "one\ntwo\n\nthree\n", "quote": "it's \"q\"",
    "n": 7, "neg": -7, "zero": 0, "f": 1.5, "one": 1.0, "big": 12345678901234567890, "tiny": 1e-7, "huge": 1e22, "t": True, "no": False, "none_": None,
    "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "e": [], "mix": [1, 1.0, "1", None, True, [2], {"k": "v"}],
    "d": {"b": 1, "a": [1, 2], "items": "shadow", "C": None}, "ed": {}, "nest": {"x": {"y": [{"z": "deep"}]}},
    "users": [{"name": "Ann", "age": 30, "on": True}, {"name": "bob", "age": 25, "on": False}, {"name": "Cid", "age": 30}],
    "tool": {"type": "function", "function": {"name": "f<x>", "n": 1.0, "list": [], "obj": {}, "s": "é\u2028\"\\/\n\x01"}},
}

# One case a line; ¶ is a line end inside a case.
CASES = r"""
{{ s }}|{{ n }}|{{ f }}|{{ one }}|{{ t }}|{{ none_ }}|{{ l }}|{{ d }}|{{ mix }}
{{ big }} {{ big + 1 }} {{ big * 2 }} {{ -big }} {{ tiny }} {{ huge }} {{ huge * 10 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789.125 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ (-2) ** 3 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 10 - 3 - 2 }} {{ -n }} {{ +n }} {{ - -n }} {{ -n|abs }} {{ (-n)|abs }} {{ not n }} {{ true + true }} {{ +true }} {{ -true }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1.0 % 0 }}
{{ 0 ** -1 }}
{{ s + 1 }}
{{ 1 + s }}
{{ s + none_ }}
{{ l + s }}
{{ l + l }} {{ l * 2 }} {{ 2 * l }} {{ 'ab' * 3 }} {{ 'ab' * -1 }} {{ (1,) + (2,) }} {{ l * true }}
{{ l - l }}
{{ s * 1.5 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.0 ~ l ~ undef ~ 'z' }}
{{ 1 ~ 2 + 3 }}
{{ 1 + 2 ~ 3 }}
{{ undef }}|{{ undef is defined }}|{{ undef|default('x') }}|{{ undef|length }}|{{ undef == undef2 }}|{{ undef == none }}|{{ undef|list }}|{{ not undef }}|{{ undef ~ 'a' }}
{{ undef.x }}
{{ undef['x'] }}
{{ undef + 1 }}
{{ 1 + undef }}
{{ undef() }}
{{ -undef }}
{{ undef < 1 }}
{{ d.nope }}|{{ d['nope'] }}|{{ l[9] }}|{{ l[-9] }}|{{ s[99] }}|{{ d.nope is undefined }}
{{ d.nope.x }}
{{ l[9].x }}
{{ none_.x }}|{{ none_['x'] }}|{{ none_[0] }}
{{ none_.x.y }}
{{ n.x }}|{{ n.real }}|{{ f.imag }}|{{ n.bit_length() }}|{{ f.is_integer() }}|{{ one.is_integer() }}
{{ d['items'] }} {{ d.b }} {{ d['a'][1] }} {{ d.a.1 }} {{ nest.x.y[0].z }} {{ nest['x']['y'][0]['z'] }} {{ d[l|first] }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ d.items()|list }} {{ d.keys()|list }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d|length }} {{ d.items()|length }}
{{ d.get() }}
{{ d.update({'x': 1}) }}
{{ l.append(1) }}
{{ l.append }}|{{ d.clear }}|{{ l.__class__ }}|{{ s.__class__ }}
{{ l.__class__.__mro__ }}
{{ l.index(1) }} {{ l.count(3) }} {{ (1, 2, 1).count(1) }} {{ l.copy() }} {{ d.copy() }}
{{ l.index(99) }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[-2:] }} {{ l[5:] }} {{ l[:-1] }} {{ l[2:0:-1] }} {{ l[1:1] }} {{ (1, 2, 3)[1:] }} {{ l[true] }} {{ l[none:2] }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::3] }} {{ s[-5:] }} {{ s[:-6] }} {{ u[6] }} {{ u[5:8] }} {{ u[::-1] }} {{ u[-1] }} {{ u[-6:] }} {{ u[9:2:-2] }} {{ s[100:] }}| {{ s[4:2] }}|
{{ l[::0] }}
{{ l['a':] }}
{{ l[1.0] }}|{{ l['x'] }}|{{ d[l] }}
{{ d[1:] }}
{{ none_[1:] }}
{{ range(5) }} {{ range(2, 8, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(3)|length }} {{ range(10)[2:5] }} {{ range(10)[-1] }} {{ 3 in range(5) }} {{ range(0)|list }} {{ range(5)[::-1]|list }} {{ range(10)|last }}
{{ range(100001) }}
{{ range(1.5) }}
{{ range() }}
{{ range(1, 2, 0) }}
{{ 1 < 2 }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }} {{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ 'a' < 'b' }} {{ 'é' > 'z' }} {{ l == [3, 1, 2] }} {{ [1, 2] < [1, 3] }} {{ (1, 2) == [1, 2] }} {{ {'a': 1} == {'a': 1.0} }} {{ none == none }} {{ 1 != 2 }} {{ 2 >= 2 }} {{ 2 <= 1 }} {{ 1 < 2 == true }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ d < d }}
{{ [1] < ['a'] }}
{{ 'ell' in s }} {{ 'x' not in s }} {{ 1 in l }} {{ 9 in l }} {{ 'b' in d }} {{ 1 in d }} {{ '' in s }} {{ 1.0 in l }} {{ none in mix }} {{ 'a' in d.keys() }} {{ 1 in d.values() }} {{ ('b', 1) in d.items() }} {{ 'x' in undef }} {{ not 1 in l }}
{{ 1 in s }}
{{ 1 in 5 }}
{{ none in s }}
{{ 'a' in none_ }}
{{ [] in d }}
{{ t and s }} {{ no and s }}|{{ empty or 'x' }} {{ s or 'x' }} {{ none_ or 0 or e }} {{ not (t and no) }} {{ not t == no }} {{ t or undef.x }}
{{ 'a' if t else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }}| {{ 'a' if no else 'b' if no else 'c' }} {{ ('a' if no) is undefined }} {{ 1 if 1 > 2 or 3 < 4 else 0 }}
{{ ('a' if no).x }}
{{ (1, 2) }} {{ (1,) }} {{ () }} {{ [1, 'a', [none]] }} {{ {'a': 1, 2: 'b', (1, 2): 3} }} {{ {} }} {{ [] }} {{ {'a': {'b': []}} }} {{ 1, 2 }} {{ [1,] }} {{ {'a': 1,} }}
{{ {[]: 1} }}
{{ quote }} {{ [quote] }} {{ ["it's"] }} {{ ['say "x"'] }} {{ ['both \' and "'] }} {{ ['a\nb\t\\ \x00 \x7f é 🙂 \u200b \xa0'] }} {{ [empty] }}
{{ 'a\nb\tc\\d\'e\"f\x41\u00e9\U0001F642\101\q' }} {{ "a" "b" 'c' }} {{ 'line \¶joined' }}
{{ '\x4' }}
{{ true }} {{ True }} {{ none }} {{ None }} {{ false }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5e3 }} {{ 1e3 }} {{ 1_0.5_0 }} {{ 00 }}
{{ s|upper }} {{ s|title }} {{ s|capitalize }} {{ 'ABC dEf'|lower }} {{ u|upper }} {{ u|lower }} {{ "it's a-b (c) [d] {e} <f> x_y ÉTÉ"|title }} {{ 'ÀB'|capitalize }} {{ 5|upper }} {{ none|lower }} {{ l|upper }}
{{ sp|trim }}| {{ 'xxhixx'|trim('x') }} {{ s|replace('l', 'L') }} {{ s|replace('l', 'L', 1) }} {{ s|replace('', '-') }} {{ 5|replace(5, 6) }} {{ s|replace('zz', 'y') }} {{ 'aaa'|replace('aa', 'b') }}
{{ s|length }} {{ u|length }} {{ l|length }} {{ d|count }} {{ empty|length }} {{ (1,2)|length }}
{{ 5|length }}
{{ none_|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ u|last }} {{ d|first }} {{ d|last }} {{ e|first }}| {{ e|last }}| {{ e|first is undefined }} {{ undef|first }}| {{ range(3)|first }}
{{ 5|first }}
{{ 5|last }}
{{ (l|map('string'))|last }}
{{ l|join }} {{ l|join(', ') }} {{ words|join('-')|upper }} {{ mix|join('|') }} {{ users|join(', ', attribute='name') }} {{ s|join('.') }} {{ d|join(',') }} {{ e|join('x') }}| {{ undef|join('x') }}| {{ l|join(1) }}
{{ 5|join }}
{{ l|sort }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ users|sort(attribute='age')|map(attribute='name')|list }} {{ users|sort(attribute='age', reverse=true)|map(attribute='name')|list }} {{ users|sort(attribute='age,name')|map(attribute='name')|list }} {{ 'hello'|sort }} {{ d|sort }}
{{ mix|sort }}
{{ d|dictsort }} {{ {'b': 1, 'a': 3, 'C': 2}|dictsort(by='value') }} {{ {'b': 1, 'B': 3, 'a': 2}|dictsort(true) }} {{ {'x': 1, 'y': 2}|dictsort(reverse=true) }}
{{ d|dictsort(by='value') }}
{{ l|dictsort }}
{{ l|reverse|list }} {{ s|reverse }} {{ u|reverse }} {{ (1,2)|reverse|list }} {{ d|reverse|list }} {{ undef|reverse|list }}
{{ 5|reverse }}
{{ l|sum }} {{ users|sum(attribute='age') }} {{ e|sum }} {{ [0.5, 1]|sum }} {{ l|sum(start=10) }} {{ [[1], [2]]|sum(start=[]) }}
{{ words|sum }}
{{ l|min }} {{ l|max }} {{ words|min }} {{ words|max }} {{ users|max(attribute='age') }} {{ e|min }}| {{ words|min(case_sensitive=true) }}
{{ mix|max }}
{{ words|unique|list }} {{ [1, 1.0, true, 2, 'a', 'A']|unique|list }} {{ ['a', 'A']|unique(case_sensitive=true)|list }} {{ users|unique(attribute='age')|map(attribute='name')|list }}
{{ l|list }} {{ s|list }} {{ d|list }} {{ undef|list }} {{ range(2)|list }}
{{ 5|list }}
{{ none_|list }}
{{ users|map(attribute='name')|list }} {{ words|map('upper')|list }} {{ l|map('string')|list }} {{ users|map(attribute='on')|list }} {{ users|map(attribute='on', default='?')|list }} {{ [[1, 2], [3]]|map('first')|list }} {{ words|map('replace', 'a', 'x')|list }} {{ l|map('multiply')|list if no }} {{ [{'a': {'b': 5}}]|map(attribute='a.b')|list }} {{ [[7, 8]]|map(attribute=1)|list }} {{ ['x']|map('indent', width=2, first=true)|list }}
{{ l|map('bogus')|list }}
{{ l|map|list }}
{{ l|select|list }} {{ [0, 1, none, 'a', '']|select|list }} {{ l|select('odd')|list }} {{ l|select('gt', 1)|list }} {{ l|reject('odd')|list }} {{ [1, none]|reject('none')|list }} {{ words|select('in', ['a', 'b'])|list }} {{ l|select('>=', 2)|list }} {{ l|select('equalto', 2)|list }} {{ undef|select('odd')|list }}
{{ users|selectattr('on')|map(attribute='name')|list }} {{ users|selectattr('age', 'equalto', 30)|list|length }} {{ users|rejectattr('on')|map(attribute='name')|list }} {{ users|selectattr('on', 'defined')|list|length }} {{ users|selectattr('name', '==', 'bob')|first }} {{ users|rejectattr('age', 'gt', 26)|list }} {{ users|selectattr('on', 'undefined')|map(attribute='name')|join }}
{{ l|select('bogus')|list }}
{{ users|selectattr|list }}
{{ (l|select('odd')) is iterable }} {{ 'yes' if e|select else 'no' }} {{ (l|select('odd')|list)[0] }}
{{ (l|select('odd'))|length }}
{{ (l|select('odd'))[0] }}|
{{ users|groupby('age') }} {% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|length }}:{{ g[0] }} {% endfor %} {{ ['a', 'B', 'A']|groupby('0')|length }} {{ users|groupby('on', default='?')|list|length if no }}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, 'x')|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, '-')|list }} {{ e|batch(2)|list }}
{{ d|items|list }} {{ undef|items|list }} {{ ed|items|list }}
{{ l|items|list }}
{{ d|attr('b') }}| {{ d|attr('items')|string == '' }} {{ s|attr('upper')() }}
{{ undef|default }}| {{ undef|default(5) }} {{ none_|default(5) }} {{ none_|default(5, true) }} {{ empty|d('x', boolean=true) }} {{ 0|default(1) }} {{ d.q|default('no') }} {{ undef|default(undef2)|default('z') }}
{{ undef.x|default(5) }}
{{ '42'|int }} {{ 'x'|int }} {{ 'x'|int(-1) }} {{ '4.7'|int }} {{ 4.7|int }} {{ -4.7|int }} {{ ' 12 '|int }} {{ '0x1f'|int(base=16) }} {{ 'ff'|int(0, 16) }} {{ '1_000'|int }} {{ none|int }} {{ true|int }} {{ ''|int(3) }} {{ '1e3'|int }} {{ l|int(9) }} {{ '-5'|int }} {{ '0b11'|int(0, 0) }}
{{ undef|int }}
{{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2) }} {{ 3|float }} {{ '1e3'|float }} {{ none|float }} {{ ' 2 '|float }} {{ '.5'|float }} {{ '5.'|float }} {{ 'inf'|float }} {{ '-nan'|float }} {{ '1_0.5'|float }} {{ true|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 1234.5678|round(2) }} {{ 42|round }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(0, 'ceil') }} {{ 1234|round(-2) }} {{ 1250.0|round(-2) }} {{ -2.5|round }} {{ true|round }} {{ 7|round(1, 'ceil') }}
{{ 'x'|round }}
{{ 1.5|round(0, 'bad') }}
{{ -5|abs }} {{ 5.5|abs }} {{ (-5.5)|abs }}
{{ 'x'|abs }}
{{ s|string }} {{ 5|string }} {{ l|string|length }} {{ none|string }}
{{ lines|indent }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, blank=true) }}|{{ 'a'|indent }}|{{ ''|indent }}|{{ ''|indent(first=true) }}|{{ 'a\nb'|indent('> ') }}|{{ 'a\n'|indent }}|{{ '\na'|indent(1, true, true) }}|{{ 'a\r\nb\x0bc'|indent(1) }}
{{ 5|indent }}
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, True) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, False, '...', 0) }} {{ 'foobarbazqux'|truncate(8, leeway=0) }} {{ u|truncate(5, true, '', 0) }}
{{ 'abc'|truncate(1) }}
{{ 'a'|center(5) }}| {{ 'ab'|center(5) }}| {{ 'ab cd  e_f'|wordcount }} {{ 1000000|filesizeformat }} {{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 1536|filesizeformat(true) }} {{ 1e30|filesizeformat }}
{{ '<a href="x">\'&'|e }} {{ '<'|escape|escape }} {{ '<'|safe|e }} {{ '<'|safe }} {{ '<'|forceescape|forceescape }} {{ ('<'|safe) + '<' }} {{ '<' + ('<'|safe) }} {{ ('<'|safe) ~ '<' }} {{ ['<'|e] }} {{ ('a'|safe) is escaped }} {{ ('a'|safe)|upper is escaped }}
{{ 'a b/c?é&'|urlencode }} {{ {'a b': 'c&d', 'e': 1}|urlencode }} {{ [['a', '/']]|urlencode }}
{{ '%s is %d' |format('x', 5) }} {{ '%(a)s'|format(a=3) }} {{ '%5.2f|%-5s|%05d|%x|%X|%o|%e|%g|%r|%%|%c|%+d|% d|%#x|%5s|%.2s' % (3.14159, 'ab', 42, 255, 255, 8, 12345.678, 0.0001, 'q', 65, 5, 5, 255, 'abc', 'xyz') }} {{ '%s' % 'x' }} {{ '%s' % [1] }} {{ '%(b)s' % d }} {{ '%i' % 3.9 }} {{ '%s' % (none,) }} {{ '%*d' % (5, 3) }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ '%s' % (1, 2) }}
{{ '%q' % 1 }}
{{ '%x' % 1.5 }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 'a') }} {{ '{a} {b!r}'.format(a=1, b='x') }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:.2f}|{:x}|{:#X}|{:%}|{:e}|{:b}|{:_}'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 3.14159, 255, 255, 0.5, 12345.678, 5, 1234567) }} {{ '{{}}'.format() }} {{ '{0[b]} {0[a][1]}'.format(d) }} {{ '{:{}}'.format('a', 5) }}| {{ '{:g} {} {:.3} {:10.3f}|'.format(1.0, 1.0, 'abcdef', 2.5) }} {{ '{}'.format(none) }} {{ '{:}'.format(l) }} {{ '{0.real}'.format(5) }}
{{ '{}'.format() }}
{{ '{'.format() }}
{{ '{:d}'.format('x') }}
{{ '{x}'.format(y=1) }}
{{ '{:5}'.format(none) }}
{{ tool|tojson }}
{{ tool|tojson(indent=2) }}
{{ tool|tojson(indent=4, sort_keys=true) }}
{{ tool|tojson(separators=(',', ':')) }} {{ tool|tojson(ensure_ascii=true) }} {{ d|tojson(sort_keys=true) if no else {'b': 1, 'a': 2}|tojson(sort_keys=true) }}
{{ s|tojson }} {{ n|tojson }} {{ one|tojson }} {{ f|tojson }} {{ none|tojson }} {{ t|tojson }} {{ e|tojson }} {{ ed|tojson }} {{ (1, 2)|tojson }} {{ big|tojson }} {{ 1e22|tojson }} {{ 1e-7|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ u|tojson }} {{ '🙂\x7f'|tojson(ensure_ascii=true) }} {{ 'inf'|float|tojson }} {{ e|tojson(indent=2) }} {{ {'a': []}|tojson(indent=1) }} {{ [1, [2]]|tojson(indent='--') }} {{ l|tojson(indent=0) }} {{ '<>&\''|tojson }}
{{ undef|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ range(3)|tojson }}
{{ {'a': 1, 2: 3}|tojson(sort_keys=true) }}
{{ s.upper() }} {{ s.title() }} {{ "they're ok".title() }} {{ s.capitalize() }} {{ 'aBc'.swapcase() }} {{ 'ΑΣ'.lower() }} {{ 'ß'.upper() }} {{ 'ﬁ'.title() }} {{ 'STRASSE'.casefold() }}
{{ sp.strip() }}|{{ sp.lstrip() }}|{{ sp.rstrip() }}|{{ 'xyhixy'.strip('yx') }} {{ '\n\n a\n'.lstrip('\n') }}| {{ '…a…'.strip('…') }} {{ 'aaa'.strip('a') }}| {{ ' a'.strip(none) }}
{{ 'x'.strip(5) }}
{{ 'x'.strip(chars='x') }}
{{ 'a b  c'.split() }} {{ 'a b  c'.split(' ') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b '.split(none, 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a--b'.split('--') }} {{ 'abc'.split(sep='b') }} {{ 'a b c'.split(maxsplit=1) }} {{ 'a</think>b'.split('</think>')[-1] }} {{ 'a\u3000b'.split() }}
{{ 'a'.split('') }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'a\r\nb\rc\x0bd\x1ce\x85f\u2028g'.splitlines() }} {{ ''.splitlines() }} {{ 'a\n'.splitlines() }}
{{ s.startswith('he') }} {{ s.startswith(('x', 'h')) }} {{ s.startswith('') }} {{ s.endswith('ld') }} {{ s.startswith('l', 2) }} {{ s.endswith('o', 0, 5) }} {{ s.startswith('', 99) }} {{ u.startswith('S', 8) }}
{{ s.startswith(5) }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.find('o', 5) }} {{ s.index('w') }} {{ s.count('l') }} {{ s.count('') }} {{ u.find('S') }} {{ u.rfind('a') }} {{ s.find('') }} {{ s.rfind('') }} {{ s.count('l', 4) }} {{ s.find('h', -99, -1) }} {{ 'aaaa'.count('aa') }}
{{ s.index('zz') }}
{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ 'aaa'.replace('', '-') }} {{ 'aaa'.replace('', '-', 2) }} {{ s.replace('hello', '') }}
{{ s.replace('o', 0) }}
{{ '-'.join(words) }} {{ ''.join([]) }}| {{ ', '.join(d) }} {{ '.'.join('abc') }} {{ ','.join(words|map('upper')) }}
{{ '-'.join(l) }}
{{ '-'.join(5) }}
{{ 'a'.center(4, '*') }} {{ 'ab'.ljust(4) }}| {{ 'ab'.rjust(4, '0') }} {{ '-5'.zfill(4) }} {{ '5'.zfill(3) }} {{ 'a\tb'.expandtabs(4) }} {{ 'abc'.partition('b') }} {{ 'abcb'.rpartition('b') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removeprefix('x') }}
{{ 'abc'.isalpha() }} {{ ''.isalpha() }} {{ '12'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'Abc'.istitle() }} {{ 'ABC'.isupper() }} {{ 'abc1'.islower() }} {{ '1'.islower() }} {{ 'a_b'.isidentifier() }} {{ 'é'.isascii() }} {{ 'a\n'.isprintable() }} {{ 'ǅ'.istitle() }}
{{ s.nope }}|{{ s.nope is defined }}|{{ s.length }}
{{ s.nope() }}
{{ s() }}
{{ l.strip() }}
{{ n is defined }} {{ n is number }} {{ t is number }} {{ t is integer }} {{ n is integer }} {{ f is float }} {{ n is float }} {{ big is integer }} {{ t is boolean }} {{ n is boolean }} {{ s is string }} {{ l is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ undef is sequence }} {{ range(2) is sequence }} {{ d.items() is sequence }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ none is iterable }} {{ undef is iterable }} {{ d.items() is iterable }}
{{ none is none }} {{ n is none }} {{ n is not none }} {{ undef is none }} {{ t is true }} {{ 1 is true }} {{ no is false }} {{ 0 is false }} {{ t is sameas true }} {{ 1 is sameas true }} {{ none is sameas none }} {{ l is sameas l }} {{ l is sameas [3, 1, 2] }}
{{ 3 is odd }} {{ 4 is even }} {{ 6 is divisibleby 3 }} {{ 6 is divisibleby(4) }} {{ 5 is eq 5 }} {{ 5 is ne 5 }} {{ 5 is gt 4 }} {{ 5 is ge 5 }} {{ 5 is lt 4 }} {{ 5 is le 5 }} {{ 5 is equalto 5 }} {{ 5 is greaterthan 4 }} {{ 5 is lessthan 4 }} {{ 1 is in l }} {{ 1 is in [2] }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 5 is upper }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ range is callable }} {{ s is callable }} {{ undef is callable }} {{ s.upper is callable }}
{{ s is odd }}
{{ 5 is nope }}
{{ 5|nope }}
{% if no %}{{ 5|nope }}{% endif %}ok
{% if t %}{{ 5|nope }}{% endif %}
{{ 5|nope if no else 'ok' }}
{% if no %}{% for x in l %}{{ x|nope }}{% endfor %}{% endif %}
{{ 5 is not odd and 4 is even }} {{ not 5 is odd }}
{{ 5 is odd is true }}
{{ n is defined and n is not string or no }} {{ 'a' is string ~ 'b' }} {{ 1 + 1 is odd }} {{ 2 * 3|string }} {{ 'a' + 'b'|upper }} {{ -1|abs }} {{ 1 if n is odd else 2 }}
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.previtem }}/{{ loop.nextitem }}/{{ loop.depth }}/{{ loop.cycle('a', 'b') }}/{{ loop.changed(x > 1) }};{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}:{{ loop.length }}:{{ loop.last }} {% endfor %}{% for x in l if x > 9 %}{% else %}none{% endfor %}
{% for x in e %}x{% else %}empty{% endfor %}{% for x in undef %}x{% else %}undef{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in u %}[{{ c }}]{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }} {% endfor %}{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [(1,)] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none_ %}{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% break %}{% else %}else{% endfor %}|{% for x in l %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% else %}else{% endfor %}|{% for x in l %}{% continue %}{% else %}else{% endfor %}
{% for x in l %}{% for y in l %}{{ loop.index }}{{ loop.first }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in l %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in nest.x.y recursive %}{{ x.z }}{% endfor %}{% for i in [[1, [2, 3]], 4] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=0, y='a') %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}|{{ ns }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns.c = [1] %}{{ ns.c }}{{ ns._x }}{% set ns.a, y = 5, 6 %}{{ ns.a }}{{ y }}
{% set d.x = 1 %}
{% set q.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = (3, 4) %}{{ c }}{{ d2 }}{% set x = 1, 2 %}{{ x }}{% set y = a if no else b %}{{ y }}
{% set a, b = 1 %}
{% set x %}  a {{ n }} b {% endset %}[{{ x }}]{% set y | upper | trim %}  abc {% endset %}[{{ y }}]
{% set x %}{% set z = 5 %}{% endset %}{{ z }}|{% set ns = namespace() %}{% set ns.v %}text{% endset %}{{ ns.v }}
{% if n > 5 %}a{% elif n > 3 %}b{% else %}c{% endif %}{% if no %}a{% elif t %}b{% endif %}{% if no %}a{% elif no %}b{% else %}c{% endif %}{% if undef %}x{% endif %}
{% if no %}{% set v = 1 %}{% endif %}{{ v }}|{% if t %}{% set s = 'new' %}{% endif %}{{ s }}|{% if no %}{% set s = 'newer' %}{% endif %}{{ s }}
{% if no %}{% set n = 1 %}{% endif %}{{ n }}{% for i in [1] %}{% if no %}{% set n = 2 %}{% endif %}{{ n }}{% endfor %}
{% for i in [1, 2] %}{{ v }}{% set v = i %}{{ v }}{% endfor %}|{{ v }}
{% for i in [1, 2] %}{% set n = n + 1 %}{{ n }}{% endfor %}{{ n }}
{% macro m(a, b='B', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=3) }}{{ m(b=2, a=1) }}{{ m() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(1) }}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, x=2) }}
{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}in{{ n }}{% endcall %}{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(x, i) each(l) %}{{ i }}={{ x }}{% endcall %}
{% macro outer() %}x{% endmacro %}{% call outer() %}in{% endcall %}
{% macro outer() %}{{ caller }}{{ caller is defined }}{% endmacro %}{{ outer() }}
{% macro m() %}{{ late }}{% endmacro %}{% set late = 'L' %}{{ m() }}{% macro fact(n) %}{{ n * fact(n - 1)|int if n > 1 else 1 }}{% endmacro %}{{ fact(5) }}
{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}{% macro k(n) %}{{ n }}{% endmacro %}{{ k('p') }}{{ n }}
{% macro m(x) %}{% for i in x %}{% set r = i %}{% endfor %}{{ r }}{% endmacro %}{{ m(l) }}|{% macro a() %}{% macro b() %}{{ n }}{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}
{{ m(1) }}{% macro m(x) %}{{ x }}{% endmacro %}
{% for i in l %}{% macro mm() %}{{ i }}{% endmacro %}{{ mm() }}{% endfor %}{{ mm is defined }}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(xs) %}{{ xs|length }}{% endmacro %}{{ m(*[l]) }}{{ m(**{'xs': l}) }}
{% macro m() %}  spaced  {% endmacro %}[{{ m()|trim }}]{{ m() is string }}{{ m() + '!' }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|trim %} aaa {% endfilter %}|
{% generation %}gen {{ n }}{% set g = 1 %}{% endgeneration %}{{ g }}{% for x in l %}{% generation %}{{ x }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% raw %}{{ not }} {% this %}{% endraw %}|{%- raw -%} a {%- endraw -%} b
{# comment #}a{#- strip -#} b {# multi¶line #}c
a {%- if t %} b {%- endif %} c {{- 'd' -}} e {%+ if t %}f{% endif +%}¶   g
  {% if t %}¶    indented¶  {% endif %}¶end
{% if t -%}¶   trimmed¶{%- endif %}
{{ s }}¶tail
x¶{%- for i in l %}¶¶  - {{ i }}¶{%- endfor %}¶
y
  {{ n }}  {% set q = 1 %}  z¶  {#- c #}¶ text	{% if t %}tab{% endif %}
{{ '{{' }} {{ '%}' }} {{ "}}" }} { { } } {{ {'a': {'b': 1}}['a']['b'] }} {{ {'a':{'b':1}} }}
{{ raise_exception('boom ' ~ n) }}
{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y') }} {{ strftime_now('%A %B %-d, %j %U %W %V %G %u %w %y %I %p %% %e %D %F %T %R %h %a %c %x %X') }} {{ strftime_now('%Z|%z|%f') }}
{{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'a': 1}, a=2) }} {{ dict() }} {{ dict(d)|length }}
{{ dict(5) }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner(', ') %}{{ j() }}{{ j() }}{{ j() }}
{% print n, s %}{{ n }}{% set x = [] %}{% for i in l %}{% set x = x + [i] %}{% endfor %}{{ x }}
{{ users[0].name }}{{ users[-1]['name'] }}{{ (users|first).age }}{{ users[-1].on|default('off') }}
{{ users[0].name if users and users[0].name is defined else '' }}
{{ nest.x.q is defined }}{{ nest.q is defined and nest.q.r }}
{% set x = {'a': 1} %}{% set x = dict(x, b=2) %}{{ x }}{{ x['b'] }}{% set y = {'k' ~ 1: n} %}{{ y.k1 }}
{{ (l, d)|tojson }}{{ ([1, 2] + [3])[1:]|join }}{{ (s ~ u)[5:14] }}{{ 'a,b'.split(',')[1]|upper }}
{{ s[0]|upper ~ s[1:] }}{{ s.split(' ')|map('capitalize')|join(' ') }}{{ s.split()[0][::-1] }}
{{ d.a|sum + d.b }}{{ l|sort|first }}{{ l|length > 2 and l[0] == 3 }}
{{ lines.strip().split('\n')|reject('equalto', '')|list }}{{ "\n".join(lines.splitlines()) }}
{{ 'a' 'b' ~ 'c' }}{{ not not s }}{{ not none_ is none }}{{ 1 if not no }}
{{ 5 }
{{ 5
{% if %}
{% if t %}
{% endif %}
{% for x in l %}{% endif %}
{% nope %}
{{ }}
{{ 5 5 }}
{{ (1 }}
{{ 1) }}
{{ 'abc }}
{% set 5 = 1 %}
{% set true = 1 %}
{% set x.y.z = 1 %}
{% for loop in l %}{{ loop }}{% endfor %}
{% for x in l %}{% set loop = 1 %}{% endfor %}
{% break %}
{% macro m() %}{% for x in l %}{% endfor %}{% break %}{% endmacro %}
{# unclosed
{% raw %} unclosed
{{ a b }}
{{ $ }}
{{ s | }}
{{ s.5x }}
{{ f(a=1, 2) }}
{{ dict(a=1, a=2) }}
{{ 1 is }}
{{ l[ }}
{{ 3 if }}
{% set x = 1 %}{% set x %}a{% endset %}{{ x }}{{ {'x': x}.x }}{{ {'x': x}['x'] }}{{ [x][0] }}{{ (x) }}{{ ((x)) }}
{{ d.b.real }}{{ 1.5.real }}{{ 'a'.upper() }}{{ [1].copy() }}{{ {}.get('x', 'y') }}{{ (1).real }}
{{ true and 'a' or 'b' }}{{ false and 'a' or 'b' }}{{ 1 and 0 or 2 }}{{ none and x.y }}
{{ [l, [1]]|map('sum')|list }}{{ [[3, 1]]|map('sort')|first }}{{ ['a', 'b']|map('upper')|join(',') }}{{ users|map(attribute='name')|map('lower')|sort|join }}
{{ users|selectattr('name', 'in', ['Ann'])|map(attribute='age')|first }}{{ users|map(attribute='age')|unique|list }}{{ users|map('attr', 'name')|list|length }}
{{ l|map('float')|list }}{{ ['1', 'x']|map('int', default=-1)|list }}{{ [1.7, 2.2]|map('round')|map('int')|list }}
{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}{% for k, v in d|items %}{{ k }}{% endfor %}{% for g, xs in users|groupby('age') %}{{ g }}{{ xs|length }}{% endfor %}
{% for x in l %}{% if loop.nextitem is defined and x > loop.nextitem %}v{% endif %}{{ loop.previtem|default('-') }}{% endfor %}
{% for x in [1, 2, 3] if x != 2 %}{{ loop.previtem|default('-') }}{{ x }}{{ loop.nextitem|default('-') }} {% endfor %}
{% set ns = namespace(stop=false) %}{% for x in [1, 2, 3] if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% set ns = namespace(a=1) %}{% macro m() %}{% set ns.a = ns.a + 1 %}{% endmacro %}{{ m() }}{{ m() }}{{ ns.a }}
{% for m in users %}{%- set first = loop.first %}{{ first }}{% endfor %}{{ first is defined }}
{% set content = 'a<think>b</think>c' %}{{ content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}{{ content.split('</think>')[-1].lstrip('\n') }}{{ '</think>' in content }}
{%- set x = 5 -%}   {{ x }}   {%- set y = 6 %}   {{ y }}
{{ s|list|batch(4)|map('join')|list }}{{ s.split('o')|length }}{{ ('x' * 3).join(['a', 'b']) }}
{{ [none, true, 1.0, 'x']|tojson }}{{ {'k': none}|string }}{{ {'k': 'it\'s'} }}{{ [[], {}, ()] }}
{{ 10 % 3 * 2 }}{{ 2 * 3 % 4 }}{{ 8 // 3 / 2 }}{{ 1 - -1 }}{{ 2 ** 2 ** 0 }}{{ 1.0 // 0.3 }}{{ -1 // 0.3 }}{{ 5.5 % -2 }}{{ 1e308 * 10 }}{{ -(1e308 * 10) }}
{{ '%.3f' % 2 }}{{ '%s' % undef }}{{ '%5s|%-5s|' % ('é', 'é') }}{{ '%05.1f' % -2.25 }}{{ '%g' % 1000000 }}{{ '%g' % 10000000 }}{{ '%.0f' % 0.5 }}{{ '%.0f' % 1.5 }}
{{ x.y if x is defined else 'safe' }}{{ (x or {}).y is defined }}{{ (undef or {'y': 1}).y }}{{ [undef]|length }}{{ [undef] }}{{ {'a': undef} }}
{{ ['b', 'a']|sort|tojson }}{{ {'b': {'d': 1, 'c': 2}, 'a': 3}|tojson(indent=2, sort_keys=true) }}{{ [{'a': 1}]|tojson(indent=1, separators=(' ,', ' : ')) }}
{{ messages|default([])|length }}{{ tools is not none and tools is defined }}{{ (tools or [])|length }}{{ add_generation_prompt is defined and add_generation_prompt }}
{% set a = [1, 2, 3] %}{{ a[1:][0] }}{{ a[:-1]|last }}{{ a[-1:] }}{{ a[::-1][0] }}{{ a[1:-1] }}{{ a[-2] }}{{ a[3:] == [] }}
{{ loop }}{{ caller }}{{ varargs }}{{ self_ }}
{% for x in l %}{{ loop }}{% endfor %}
{% for x in [] %}{% endfor %}{{ x }}{% for x in [1] %}{% endfor %}{{ x }}
{% set n %}{{ n }}{% endset %}{{ n }}{% set s = s ~ '!' %}{{ s }}
{{ s|wordwrap(5) }}|{{ 'one two-three four--five sixseveneight'|wordwrap(6) }}|{{ 'abcdefgh ij'|wordwrap(3, false) }}|{{ 'ab-cd ef'|wordwrap(3, true, '/', false) }}|{{ lines|wordwrap(2) }}
{{ 1|wordwrap }}
{{ 'a'|wordwrap(0) }}
{{ d|pprint }}|{{ users|pprint }}|{{ (s * 9)|pprint }}|{{ [s * 9, 1]|pprint }}|{{ (1,)|pprint }}|{{ {'z': 1, 'a': [u * 8] * 3}|pprint }}
{{ '<p>a  <b>b</b></p> &amp;&lt;&eacute;&#65;&#x42;&notit;&nosuch; <!-- x -->y'|striptags }}
{{ {'class': 'a "b"', 'id': 3, 'no': none, 'un': undef}|xmlattr }}|{{ {}|xmlattr }}|{{ {'a': 1}|xmlattr(false) }}
{{ {'a b': 1}|xmlattr }}
{{ 'see http://a.org/x?y=1&z, (www.b.com) or c@d.ef.'|urlize }}|{{ 'http://a.org/long/path'|urlize(12, true, '_blank') }}|{{ 'ftp://x y'|urlize(extra_schemes=['ftp:']) }}
{% block a %}A{{ s }}{% endblock a %}{% block b scoped %}{{ self.a() }}{% endblock %}{{ self.b() }}{{ self.nope }}
{% set x = 1 %}{% block a %}{{ x }}{% set y = 2 %}{{ y }}{% endblock %}{{ y }}{% for i in l %}{% block c scoped %}{{ i }}{% endblock %}{% endfor %}{% for i in l %}{% block d %}{{ i }}{% endblock %}{% endfor %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% if false %}{% include 'x' %}{% import 'y' as z %}{% from 'a' import b with context %}{% extends 'q' %}{% endif %}ok
{% include 'x' %}
{% extends 'x' %}
{% autoescape false %}<{{ quote }}>{% endautoescape %}
{{ (s|e).split('o') }}{{ ('<%s>'|safe) % '<' }}{{ ('<b>{}</b>'|safe).format('<') }}{{ (','|safe).join(['<', 'a']) }}{{ ('a'|safe).replace('a', '<') }}{{ ('ab'|safe)[0] ~ '<' }}
{% filter length %}abc{% endfilter %}
{{ '{:=+8}'.format(true) }}{{ '{:_x}'.format(70000) }}{{ '{!a}'.format(u) }}{{ '%a' % u }}{{ '{0[0]}{}'.format('xy') }}
{{ '{:+}'.format('a') }}
{{ '{:.2}'.format(1) }}
{{ nope.__class__ }}|{{ '{x.__init__}'.format(x=nope) }}
{{ dict(nope) }}
{{ l|sort(reverse='a') }}
"""


def main():
    assert jinja2.__version__ == "3.1.6", jinja2.__version__
    env, out = chat_environment.environment(), []
    for source in CASES.strip("\n").split("\n"):
        source = source.replace("¶", "\n")
        try:
            text = env.from_string(source).render(json.loads(json.dumps(VARIABLES)))
        except Exception:  # whatever it is: the template fails
            text = None
        assert text is None or " at 0x" not in text, (source, text)
        out.append([source, text])
    lines = [json.dumps(entry, ensure_ascii=False) for entry in out]
    OUT.write_text('{"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ',\n"cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(len(out), "cases,", sum(e[1] is None for e in out), "of them errors")


main()
