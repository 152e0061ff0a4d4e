import { describe, expect, it } from 'vitest';
import { parseArguments } from '../../../src/cli/eval/arguments.ts';
import { ConfigError } from '../../../src/core/errors.ts';

const parse = (line: string) => parseArguments(line.split(' '));

describe('parseArguments', () => {
  it('reads every letter of v0', () => {
    const json = ['-a', '{"topk":5}', '-x', '{"max_turns":3}', '-S', '{"top_k":1}'];
    const policy = '-p vllm -b http://h/v1 -k KEY -m M -e e.toml -t 100 -T 0.5'.split(' ');
    const run = '-n 7 -r 2 -c 4 -o out -s -C a,b -i -v -A -R --env-dir-path envs --shuffle --shuffle-seed 3'.split(' ');
    const more = '--timeout 1.5 --max-retries 0 --seed 9 --json --plain --dry-run'.split(' ');
    const argv = ['search-r1', ...json, ...policy, '--header', 'A: 1', '--header', 'B: 2', ...run, ...more];
    expect(parseArguments(argv)).toMatchObject({
      target: 'search-r1',
      settings: {
        'env-args': { topk: 5 },
        'extra-env-kwargs': { max_turns: 3 },
        provider: 'vllm',
        'api-base-url': 'http://h/v1',
        'api-key-var': 'KEY',
        model: 'M',
        'endpoints-path': 'e.toml',
        'num-examples': 7,
        'rollouts-per-example': 2,
        'max-concurrent': 4,
        'max-tokens': 100,
        temperature: 0.5,
        'sampling-args': { top_k: 1 },
        'output-dir': 'out',
        'save-results': true,
        'state-columns': ['a', 'b'],
        'independent-scoring': true,
        verbose: true,
        'abbreviated-summary': true,
        resume: true,
        'env-dir-path': 'envs',
        header: { A: '1', B: '2' },
        shuffle: true,
        'shuffle-seed': 3,
        timeout: 1.5,
        'max-retries': 0,
        seed: 9,
        json: true,
        plain: true,
        'dry-run': true,
      },
    });
  });

  it('takes -n -1 as all rows', () => {
    expect(parse('search-r1 -n -1').settings['num-examples']).toBe(-1);
    expect(parse('search-r1 --num-examples=-1').settings['num-examples']).toBe(-1);
  });

  it.each([
    ['search-r1 -R', true, 'search-r1', ['search-r1']],
    ['-R search-r1', true, 'search-r1', ['search-r1']],
    ['search-r1 -R out/x', 'out/x', 'search-r1', ['search-r1']],
    ['-R out/x search-r1 -n 5', 'out/x', 'search-r1', ['search-r1', '-n', '5']],
    ['search-r1 --resume=out/x -v', 'out/x', 'search-r1', ['search-r1', '-v']],
    ['search-r1 -R -n 5', true, 'search-r1', ['search-r1', '-n', '5']],
  ])('reads %j: -R is %j', (line, resume, target, words) => {
    expect(parse(line)).toMatchObject({ target, words, settings: { resume } });
  });

  it.each([
    ['search-r1 --num-exmaples 3', /Unknown flag --num-exmaples \(did you mean --num-examples\?\)/],
    ['search-r1 --frobnicate', /^Unknown flag --frobnicate; vf-eval --help/],
    ['search-r1 -z', /Unknown flag -z/],
    ['search-r1 -H', /vf-eval does not have the flag -H of verifiers v0: use --push OWNER/],
    ['search-r1 -n', /-n needs a value/],
    ['search-r1 -n 0', /^-n must be an integer of at least 1, or -1 for all, got 0$/],
    ['search-r1 -n 2.5', /got 2.5/],
    ['search-r1 -n abc', /got "abc"/],
    ['search-r1 -T -1', /^-T must be a number from 0 to 100, got -1$/],
    ['search-r1 -c 0', /^-c must be an integer of at least 1, got 0$/],
    ['search-r1 other', /takes one environment or TOML file, got 2/],
    ['search-r1 --json=yes', /--json takes no value/],
    ['search-r1 -a {topk:5}', /JSON object.*got \{topk:5\}, which is not valid JSON from character 1 on/],
    ['search-r1 -a [1]', /^-a must be a JSON object/],
    ['search-r1 -S 3', /^-S must be a JSON object/],
    ['search-r1 --header nothing', /--header must be "Name: value"/],
  ])('refuses %j', (line, message) => {
    expect(() => parse(line)).toThrow(ConfigError);
    expect(() => parse(line)).toThrow(message);
  });

  it('shows no secret of an argument that it cannot read', () => {
    const broken = [
      ['-a', '{"api_key": "sk-very-secret"'],
      ['--header', 'Authorization Bearer sk-very-secret'],
      ['--header', 'X: sk-very-secret\nY: 1'],
    ];
    for (const argv of broken) {
      expect(() => parseArguments(['search-r1', ...argv])).toThrow(ConfigError);
      expect(() => parseArguments(['search-r1', ...argv])).not.toThrow(/sk-very-secret/);
    }
  });
});
