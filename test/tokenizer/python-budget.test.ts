import { describe, expect, it } from 'vitest';
import { PythonTemplate } from '../../src/tokenizer/python-template.ts';

const rendered = (source: string, variables: Readonly<Record<string, unknown>> = {}) =>
  new PythonTemplate(source, { isChat: true }).render(variables);

describe('PythonTemplate', () => {
  it('refuses templates whose work or text grows without bounds', () => {
    const large = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`key${i}`, i]));
    const grown = (step: string) => `{% set ns = namespace(s=[1], t='a') %}{% for i in range(99) %}${step}{% endfor %}`;
    for (const source of [
      '{% for a in range(100000) %}{{ range(100000)|length }}{% endfor %}',
      '{% set x = [0] * 10**9 %}',
      '{% set x = [] * 10**9 %}',
      '{{ range(10)|batch(10**9, 0)|list|length }}',
      '{{ range(100000)|unique|list|length }}',
      "{% set a = 'x' * 16000000 %}{% for i in range(100000) %}{% set b = a|upper %}{% endfor %}",
      "{{ ('x' * 16000000)|list|length }}",
      "{% set s = 'a ' * 100000 %}{% for i in range(1000) %}{% set x = s.split(' ') %}{% endfor %}",
      "{% set s = 'a ' * 100000 %}{% for i in range(1000) %}{% set x = s.rsplit() %}{% endfor %}",
      "{% set s = 'a\\n' * 100000 %}{% for i in range(1000) %}{% set x = s.splitlines() %}{% endfor %}",
      '{% set ns = namespace(d=dict()) %}{% for i in range(1500) %}{% set ns.d = dict(ns.d, **{i|string: 1}) %}{% endfor %}',
      '{% set x = range(90000)|list %}{% for i in range(9) %}{% set y = x|sort(reverse=true) %}{% endfor %}',
      '{% set x = range(90000)|list %}{% for i in range(9) %}{% set y = x|tojson %}{% endfor %}',
      '{% set x = range(90000)|list %}{% for i in range(90) %}{% set y = x[1:] %}{% endfor %}',
      "{% set x = ['a' * 90000, 'a' * 90000] %}{% for i in range(90) %}{% set y = x|sort %}{% endfor %}",
      '{% set x = "ab" * 4000000 %}{{ x|replace("a", "cd")|length }}',
      grown('{% set ns.s = ns.s + ns.s %}'),
      grown('{% set ns.t = ns.t ~ ns.t %}'),
      grown('{% set ns.t = ns.t + ns.t %}'),
    ])
      expect(() => rendered(source)).toThrow(/the template takes more than 250,\d+ steps/);
    expect(() => rendered('{% for i in range(1000) %}{% set x = large|list %}{% endfor %}', { large })).toThrow('takes more than 5,000,000 steps');
    expect(() => rendered("{{ 'x' * 20000000 }}")).toThrow('the template makes a text of more than 16,777,216 characters');
  });

  it('has steps for every value and text of its variables, and 5,000,000 at most', () => {
    const source = '{% for a in range(300) %}{% for b in range(300) %}{% endfor %}{% endfor %}';
    const stepsOf = (variables: Readonly<Record<string, unknown>>) => {
      try {
        return rendered(source, variables);
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(stepsOf({})).toContain('250,200 steps');
    expect(stepsOf({ messages: [1, 2, 3] })).toContain('251,000 steps');
    expect(stepsOf({ text: 'x'.repeat(1600) })).toContain('270,400 steps');
    expect(rendered(source, { messages: Array.from({ length: 3000 }, () => 0) })).toBe('');
    expect(() => rendered('{% for a in range(100000) %}{{ range(100000)|length }}{% endfor %}', { text: 'x'.repeat(2 ** 24) })).toThrow(
      '5,000,000 steps',
    );
  });

  it('renders long chats, one after another', () => {
    const messages = Array.from({ length: 2000 }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: 'hello' }));
    const source = '{% for m in messages %}{% if messages|length > loop.index %}{{ m.role ~ ": " ~ m.content|trim ~ "\n" }}{% endif %}{% endfor %}';
    for (let i = 0; i < 2; i += 1) expect(rendered(source, { messages }).length).toBeGreaterThan(20_000);
  });
});
