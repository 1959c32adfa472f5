#!/usr/bin/env python3
"""Writes cases.json: what Python's Jinja2, set up as transformers does for chat templates, makes of templates written for this test.

    gen.py > cases.json                          needs jinja2 3.1
    gen.py templates.json > differential.json    renders a list of templates with the variables of language.json
"""
import copy
import datetime
import json
import os
import sys

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 14, 5, 9)

CONVERSATIONS = {
    "one": [{"role": "user", "content": "Hi!"}],
    "many": [
        {"role": "system", "content": "Be brief.\n"},
        {"role": "user", "content": "  What is 2+2? \"quoted\" & <b>  "},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "Danke, schön ✅"},
    ],
}

TEMPLATES = {
    "chatml": "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "lines": """{%- if messages[0].role == 'system' -%}
    {%- set system = messages[0].content | trim -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set system = none -%}
    {%- set rest = messages -%}
{%- endif -%}
{{ bos_token }}
{% if system is not none %}
System: {{ system }}
{% endif %}
  {% for m in rest %}
{# a comment on a line of its own #}
    [{{ loop.index0 }}/{{ loop.length }}{% if loop.last %} last{% endif %}] {{ m.role | upper }}: {{ m.content }}

  {% endfor %}
end
""",
    "signs": "a {{- 1 -}} b {{ 2 }}\n  {%+ if true %} c {%- endif %}\n\n  {% if true +%}\nd\n{% endif -%}   e\n{#- x -#}  f {# y #}\n g",
    "raw": "{% raw %}\n  {{ not }} {% code %}\n  {% endraw %}\nx {%- raw -%}  {{ y }}  {%- endraw %} z",
    "strings": r"""{{ 'it\'s' ~ "a\"b" ~ '\t|\n|\\|\x41|\u00e9|\d' }}{{ '{{ }} %} {%' }}{{ {'a': {'b': 1}}['a']['b'] }}""",
    "namespace": "{% set ns = namespace(found=false, last='') %}{% for m in messages %}{% if m.role == 'user' %}"
                 "{% set ns.found = true %}{% set ns.last = m.content %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.last }}",
    "macro": "{% macro turn(role, text='none') %}<{{ role }}>{{ text }}</{{ role }}>{% endmacro %}"
             "{{ turn('a') }}{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}",
    "recursive": "{% macro down(n) %}{{ n }}{% if n > 0 %} {{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}",
    "json": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}"
            "{{ {'n': none, 't': true, 'i': -3, 'f': 2.0, 's': 0.1, 'b': 100000000000000000000.0, 'e': 0.00001, 'l': [], 'd': {}, 'u': 'é\"\\n'} | tojson }}",
    "raise": "{% if messages[0].role != 'system' %}{{ raise_exception('a system message must come first') }}{% endif %}ok",
    "filters": "{{ messages | length }} {{ messages | map(attribute='role') | join(', ') }} {{ (messages | last).role | capitalize }} "
               "{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ missing | default('d') }}{{ missing }}",
    "tests": "{{ missing is defined }} {{ none is none }} {{ 'a' in 'abc' }} {{ 3 is number }} {{ messages is iterable }} {{ 'x' is string }} {{ tools is none }}",
    "methods": "{{ '  a b '.strip().split(' ') | join('-') }} {{ 'abc'.startswith('ab') }} {{ messages[0].get('name', '-') }} {{ messages[-1]['role'] }}",
    "date": "{{ strftime_now('%Y-%m-%d %d %B %H:%M:%S %b %%') }}",
    "append": "{% set l = [] %}{{ l.append(1) }}{{ l }}",
    "setblock": "{% set text %}  x{{ 1 + 1 }}\n{% endset %}[{{ text }}]",
    "break": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m.role }};{% endfor %}",
}


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_written"), [], [], body).set_lineno(lineno)

    def _written(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def differential(path):
    env = environment()
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "language.json")) as f:
        context = json.load(f)["context"]
    cases = []
    for template in json.load(open(path)):
        case = {"template": template}
        try:
            case["out"] = env.from_string(template).render(**copy.deepcopy(context))
        except Exception as e:
            case["error"] = {"type": type(e).__name__, "message": str(e)}
        cases.append(case)
    json.dump({"context": context, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


def main():
    env = environment()
    cases = []
    for name, source in TEMPLATES.items():
        for conversation, messages in CONVERSATIONS.items():
            for prompt in (False, True):
                case = {"name": f"{name} {conversation} {prompt}", "template": source, "messages": messages, "add_generation_prompt": prompt}
                try:
                    case["out"] = env.from_string(source).render(
                        messages=messages, tools=None, documents=None, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>")
                except jinja2.exceptions.TemplateError as e:
                    case["error"] = str(e)
                    case["raised"] = type(e) is jinja2.exceptions.TemplateError
                cases.append(case)
    json.dump(cases, sys.stdout, ensure_ascii=False, indent=1)
    print()


if len(sys.argv) > 1:
    differential(sys.argv[1])
else:
    main()
