import { describe, expect, it } from 'vitest';
import { vfEval } from '../../../src/cli/commands/vf-eval.ts';
import { parseWords } from '../../../src/cli/options/parse-words.ts';
import { runWords } from '../../../src/cli/options/run-defined.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { quietContext } from '../options/quiet-context.ts';

const parse = (line: string) => parseWords(vfEval, line.split(' '));

describe('the options of vf-eval', () => {
  it('reads every letter of v0', () => {
    const json = ['-a', '{"topk":5}', '-x', '{"max_turns":3}', '-S', '{"top_k":1}'];
    const policy = '-p vllm -b http://h/v1 -k KEY -m M -e e.toml -t 100 -T 0.5'.split(' ');
    const run = '-n 7 -r 2 -c 4 -o out -s -C a,b -i -v -A -R --env-dir-path envs --shuffle --shuffle-seed 3'.split(' ');
    const more = '--timeout 1.5 --max-retries 0 --seed 9 --json --plain --dry-run'.split(' ');
    const argv = ['search-r1', ...json, ...policy, '--header', 'A: 1', '--header', 'B: 2', ...run, ...more];
    expect(parseWords(vfEval, argv)).toMatchObject({
      arguments: { environment: 'search-r1' },
      options: {
        envArgs: { topk: 5 },
        extraEnvKwargs: { max_turns: 3 },
        provider: 'vllm',
        apiBaseUrl: 'http://h/v1',
        apiKeyVar: 'KEY',
        model: 'M',
        endpointsPath: 'e.toml',
        numExamples: 7,
        rolloutsPerExample: 2,
        maxConcurrent: 4,
        maxTokens: 100,
        temperature: 0.5,
        samplingArgs: { top_k: 1 },
        outputDir: 'out',
        saveResults: true,
        stateColumns: ['a', 'b'],
        independentScoring: true,
        verbose: true,
        abbreviatedSummary: true,
        resume: true,
        envDirPath: 'envs',
        header: { A: '1', B: '2' },
        shuffle: true,
        shuffleSeed: 3,
        timeout: 1.5,
        maxRetries: 0,
        seed: 9,
        json: true,
        plain: true,
        dryRun: true,
      },
    });
  });

  it('takes -n -1 as all rows', () => {
    expect(parse('search-r1 -n -1').options.numExamples).toBe(-1);
    expect(parse('search-r1 --num-examples=-1').options.numExamples).toBe(-1);
  });

  it.each([
    ['search-r1 -R', true, 'search-r1', ['search-r1']],
    ['-R search-r1', true, 'search-r1', ['search-r1']],
    ['search-r1 -R out/x', 'out/x', 'search-r1', ['search-r1']],
    ['-R out/x search-r1 -n 5', 'out/x', 'search-r1', ['search-r1', '-n', '5']],
    ['search-r1 --resume=out/x -v', 'out/x', 'search-r1', ['search-r1', '-v']],
    ['search-r1 -R -n 5', true, 'search-r1', ['search-r1', '-n', '5']],
  ])('reads %j: -R is %j', (line, resume, target, words) => {
    const parsed = parse(line);
    expect(parsed).toMatchObject({ arguments: { environment: target }, options: { resume } });
    expect(parsed.wordsWithout('resume')).toEqual(words);
  });

  it.each([
    ['search-r1 --num-exmaples 3', /Unknown flag --num-exmaples \(did you mean --num-examples\?\)/],
    ['search-r1 --frobnicate', /^Unknown flag --frobnicate; vf-eval --help/],
    ['search-r1 -z', /Unknown flag -z/],
    ['search-r1 -n', /-n needs a value/],
    ['search-r1 -n 0', /^-n must be an integer of at least 1, or -1 for all, got 0$/],
    ['search-r1 -n 2.5', /got 2.5/],
    ['search-r1 -n abc', /got "abc"/],
    ['search-r1 -T -1', /^-T must be a number from 0 to 100, got -1$/],
    ['search-r1 --top-p 1.1', /^--top-p must be a number above 0 and at most 1, got 1\.1$/],
    ['search-r1 --max-cost 0', /^--max-cost must be a number above 0, got 0$/],
    ['-n 3', /^<environment \| file\.toml> is missing: an id such as search-r1, .*; vf-eval --help shows more$/],
    ['search-r1 -c 0', /^-c must be an integer of at least 1, got 0$/],
    ['search-r1 other', /^vf-eval takes one argument, <environment \| file\.toml>, got 2: search-r1 other$/],
    ['search-r1 --json=yes', /--json takes no value/],
    ['search-r1 -a {"topk":9007199254740993}', /^-a: the integer 9007199254740993 is beyond 2\^53; write it as text/],
    ['search-r1 -S {"temperature":1e999}', /^-S: the number 1e999 is beyond 2\^53/],
    ['search-r1 -S {"top_k":1,"top_k":2}', /^-S has the key "top_k" twice. Keep the one that counts/],
    ['search-r1 -a {topk:5}', /JSON object such as '\{"topk": 5\}', or key=value, got \{topk:5\}, which is not valid JSON from character 1 on/],
    ['search-r1 -a [1]', /^-a must be a JSON object/],
    ['search-r1 -S 3', /^-S must be a JSON object/],
    [
      'search-r1 --role judge',
      /^--role needs a role and its model, such as --role judge=gpt-4\.1-mini@https:\/\/api\.openai\.com\/v1, got "judge"\.$/,
    ],
    ['search-r1 --header nothing', /--header must be "Name: value"/],
  ])('refuses %j', (line, message) => {
    expect(() => parse(line)).toThrow(ConfigError);
    expect(() => parse(line)).toThrow(message);
  });

  it('reads -a, -x and -S as JSON or as key=value, one after the other', () => {
    const { options } = parseWords(vfEval, [
      'search-r1',
      '-a',
      '{"topk": 5, "dataset": "nq"}',
      '-a',
      'topk=3',
      '--extra-env-kwargs=a=[1]',
      '-S',
      'top_k=2',
      '-S',
      'min_p=0.1',
    ]);
    expect(options).toEqual({ envArgs: { topk: 3, dataset: 'nq' }, extraEnvKwargs: { a: [1] }, samplingArgs: { top_k: 2, min_p: 0.1 } });
  });

  it.each([
    [['search-r1', '--max-turns', '3'], `Unknown flag --max-turns. It is an argument of search-r1: -a '{"max_turns": 3}'`],
    [['search-r1', '--min-turns', '3'], 'Unknown flag --min-turns; vf-eval --help lists them all'],
    [['search-r1', '-H'], 'vf-eval does not have the flag -H of verifiers v0: use --push OWNER/NAME'],
    [
      ['search-r1', '-n', '3', '--num-workers', '4'],
      'vf-eval does not have the flag --num-workers of verifiers v0: all rollouts share one process; -c sets how many run at once',
    ],
  ])('says what to do instead of %j', async (words, sentence) => {
    await expect(runWords(vfEval, words, quietContext())).rejects.toThrow(sentence);
  });

  it('shows no secret of an argument that it cannot read', () => {
    const broken = [
      ['-a', '{"api_key": "sk-very-secret"'],
      ['--header', 'Authorization Bearer sk-very-secret'],
      ['--header', 'X: sk-very-secret\nY: 1'],
    ];
    for (const argv of broken) {
      expect(() => parseWords(vfEval, ['search-r1', ...argv])).toThrow(ConfigError);
      expect(() => parseWords(vfEval, ['search-r1', ...argv])).not.toThrow(/sk-very-secret/);
    }
  });
});
