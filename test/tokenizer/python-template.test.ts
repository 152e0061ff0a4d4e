/** Cases that the goldens of published-templates.test.ts do not contain: operations of templates on values, with what Python 3.11 and Jinja 3.1 print next to them. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { PythonTemplate } from '../../src/tokenizer/python-template.ts';

const render = (source: string, variables: Readonly<Record<string, unknown>> = {}) => new PythonTemplate(source, { isChat: true }).render(variables);

describe('PythonTemplate', () => {
  it.each<[string, string]>([
    ['{{ value }}', "[True, None, 1, 2.5, 1e-05, 'a', {'b': False}]"],
    ['{{ value | string }}', "[True, None, 1, 2.5, 1e-05, 'a', {'b': False}]"],
    ['{{ value[0] ~ value[1] ~ value[3] ~ value[5] }}', 'TrueNone2.5a'],
    ['{{ value[1] }}|{{ missing }}|{{ value[0] | string }}', 'None||True'],
    ['{{ (value[0], value[1]) }}', '(True, None)'],
    ['{{ value | tojson(indent=2, ensure_ascii=true) }}', '[\n  true,\n  null,\n  1,\n  2.5,\n  1e-05,\n  "a",\n  {\n    "b": false\n  }\n]'],
    ['{{ {"é": [], "a": {}} | tojson(sort_keys=true, indent=1) }}', '{\n "a": {},\n "é": []\n}'],
    ['{{ {"é\u007f": 1} | tojson(ensure_ascii=true, separators=(",", ":")) }}', '{"\\u00e9\\u007f":1}'],
    ['{% set x %}{{ value[0] }}{% endset %}{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{{ x }}{% call m(none) %}!{% endcall %}', 'TrueNone!'],
  ])('prints %s as Python does', (source, printed) => {
    expect(render(source, { value: [true, null, 1, 2.5, 0.000_01, 'a', { b: false }] })).toBe(printed);
  });

  it.each<[string, string]>([
    ["it's", '["it\'s"]'],
    ['"m"', '[\'"m"\']'],
    ['it\'s "m"', "['it\\'s \"m\"']"],
    ['a\\b\n\r\t\u0000\u007f', "['a\\\\b\\n\\r\\t\\x00\\x7f']"],
    ['\u00a0\u200b\u2028é 🙂\u{e0001}', "['\\xa0\\u200b\\u2028é 🙂\\U000e0001']"],
  ])('quotes %j within a list as Python does', (text, printed) => {
    expect(render('{{ [text] }}', { text })).toBe(printed);
  });

  it.each<[string, string]>([
    ['{{ text | trim }}', '\ufeff a \ufeff'],
    ['{{ text.strip() }}', '\ufeff a \ufeff'],
    ["{{ text.strip('\\n\u0085') }}", '\u001c\ufeff a \ufeff\u001f'],
    ["{{ text.lstrip('\\n') }}", '\u0085\u001c\ufeff a \ufeff\u001f\n'],
    ["{{ text.rstrip('\\n') }}", '\n\u0085\u001c\ufeff a \ufeff\u001f'],
    ["{{ 'xyaxy'.strip('yx') ~ 'xx'.strip('x') ~ none | trim }}", 'aNone'],
  ])('strips with %s what Python strips', (source, stripped) => {
    expect(render(source, { text: '\n\u0085\u001c\ufeff a \ufeff\u001f\n' })).toBe(stripped);
  });

  it('names months and days in English, whatever the language of the machine', () => {
    const program =
      "import { PythonTemplate } from './src/tokenizer/python-template.ts';" +
      `process.stdout.write(new PythonTemplate('{{ strftime_now("%d %b %Y|%B|%A|%-d|%I %p|%%|%Q") }}', { isChat: true }).render({}));`;
    const environment = { ...process.env, LC_ALL: 'fr_FR.UTF-8', TZ: 'UTC' };
    const args = ['--conditions=vf-search-source', '--no-warnings', '--input-type=module-typescript', '-e', program];
    const printed = execFileSync(process.execPath, args, { cwd: join(import.meta.dirname, '../..'), env: environment, encoding: 'utf8' });
    expect(printed).toMatch(/^\d\d [A-Z][a-z]{2} \d{4}\|[A-Z][a-z]+\|[A-Z][a-z]+day\|[1-9]\d?\|\d\d [AP]M\|%\|%Q$/);
    expect(printed).toContain(new Date().toLocaleDateString('en-US', { month: 'long', timeZone: 'UTC' }));
  });
});
