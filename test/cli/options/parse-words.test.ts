import { describe, expect, it, vi } from 'vitest';
import { argument, defineCommand, defineCommands, optionalArgument, severalArguments } from '../../../src/cli/options/define-command.ts';
import {
  anyText,
  assignments,
  file,
  flag,
  folder,
  names,
  number,
  oneOf,
  optionalFolder,
  text,
  texts,
  wholeNumber,
} from '../../../src/cli/options/kinds.ts';
import { groups, keyOf, table } from '../../../src/cli/options/option.ts';
import { parseWords } from '../../../src/cli/options/parse-words.ts';
import { renderHelp } from '../../../src/cli/options/render-help.ts';
import { runWords } from '../../../src/cli/options/run-defined.ts';
import { headers, numbers, object, roles } from '../../../src/cli/options/table-kinds.ts';
import { ConfigError } from '../../../src/core/errors.ts';
import { quietContext } from './quiet-context.ts';

const sample = defineCommand({
  name: 'vf-sample',
  summary: 'Has an option of every kind.',
  arguments: { environment: argument('what to play'), file: optionalArgument('a file') },
  options: groups({
    Numbers: {
      count: wholeNumber('rows', { letter: 'n', from: 1, or: { value: -1, means: 'all' } }),
      port: wholeNumber('a port', { to: 65_535, default: 8000 }),
      heat: number('how hot', { letter: 'T', from: 0, to: 100 }),
      share: number('a share', { above: 0 }),
    },
    Texts: {
      model: text('a model', { letter: 'm' }),
      prefix: anyText('text before it'),
      output: file('a file to write', { letter: 'o' }),
      place: folder('a folder', {}),
      resume: optionalFolder('a run', { letter: 'R' }),
      form: oneOf(['tags', 'text', 'none'], 'a form', { default: 'tags' }),
      columns: names('columns', { letter: 'C' }),
      adapter: texts('adapters'),
      url: texts('servers', { commas: true }),
      set: assignments('a setting', { example: 'a.b=1' }),
    },
    Tables: {
      envArgs: object('arguments', { letter: 'a', example: '{"topk": 5}' }),
      header: headers('a header'),
      role: roles('a model'),
      weight: numbers('a weight', { example: 'format=0.2' }),
    },
    Display: { json: flag('one object'), plain: flag('no colour'), verbose: flag('stacks', { letter: 'v' }) },
  }),
  conflicts: [['json', 'plain']],
  run: async ({ options: { count } }) => count ?? 0,
});

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return null;
}

const parse = (...words: string[]) => parseWords(sample, ['env', ...words]);

describe('prototype keys', () => {
  it('are refused by name in tables and roles', () => {
    const taken = object('arguments', { example: '{}' });
    for (const word of ['__proto__=1', '{"__proto__": {"a": 1}}', '{"a": [{"__proto__": 1}]}'])
      expect(() => taken.parse(word, '--eval-args', undefined)).toThrow(
        '--eval-args has the key __proto__, which nothing can be named. Leave it out',
      );
    for (const word of ['__proto__=x', '__proto__.max_tokens=1', 'judge.__proto__=x', 'judge.sampling.__proto__=1'])
      expect(() => roles('roles').parse(word, '--role', undefined)).toThrow('--role names __proto__');
  });
});

describe('parseWords', () => {
  it('reads every kind, by letter and by name', () => {
    const counts = ['-n', '-1', '--port=0', '-T0.5', '--share', '1e-3'];
    const tables = [
      '-a',
      '{"topk": 5}',
      '-a',
      'dataset=nq',
      '-a',
      'deep={"x": [1]}',
      '--header',
      'A: 1',
      '--header',
      'B: 2',
      '--role',
      'judge=builtin',
      '--weight',
      'judge=.5',
      '--weight',
      'a=b=-1',
    ];
    const words = [
      '-m',
      'M',
      '-o',
      '-',
      '--place',
      'p',
      '--form',
      'text',
      '-C',
      'a, b',
      '--adapter',
      'x',
      '--adapter',
      'y',
      '--url',
      'u,v',
      '--url',
      'w',
    ];
    const { options, arguments: values, given } = parse(...counts, ...tables, ...words, '--set', 'a.b=1', '--set', 'c=', '-v', 'rows.jsonl');
    expect(values).toEqual({ environment: 'env', file: 'rows.jsonl' });
    expect(options).toEqual({
      count: -1,
      port: 0,
      heat: 0.5,
      share: 0.001,
      model: 'M',
      output: '-',
      place: 'p',
      form: 'text',
      columns: ['a', 'b'],
      adapter: ['x', 'y'],
      url: ['u', 'v', 'w'],
      set: ['a.b=1', 'c='],
      envArgs: { topk: 5, dataset: 'nq', deep: { x: [1] } },
      header: { A: '1', B: '2' },
      role: { judge: { use: 'builtin' } },
      weight: { judge: 0.5, 'a=b': -1 },
      verbose: true,
    });
    expect(given.get('count')).toBe('-n');
    expect(given.get('port')).toBe('--port');
  });

  it('takes an empty text where it says something', () => {
    expect(parse('--prefix', '', '-v').options).toMatchObject({ prefix: '', verbose: true });
    expect(parse('--prefix=').options.prefix).toBe('');
    expect(() => parse('--prefix', '--json')).toThrow('--prefix needs a value: text before it');
  });

  it('fills in defaults, leaves out other options that were not given, and takes the last of several values', () => {
    expect(parse().options).toEqual({ port: 8000, form: 'tags' });
    expect(parse('-n', '3', '--count', '4').options.count).toBe(4);
  });

  it.each([
    [['env', '-R'], true, ['env']],
    [['-R', 'env'], true, ['env']],
    [['env', '-R', 'out/x', '-n', '5'], 'out/x', ['env', '-n', '5']],
    [['-R', 'out/x', 'env'], 'out/x', ['env']],
    [['env', '--resume=out/x', '-v'], 'out/x', ['env', '-v']],
    [['env', '-vR'], true, ['env', '-vR']],
  ])('gives an option with an optional value only a word that no argument needs: %j', (words, resume, without) => {
    const parsed = parseWords(sample, words);
    expect([parsed.arguments.environment, parsed.options.resume]).toEqual(['env', resume]);
    expect(parsed.wordsWithout('resume')).toEqual(without);
  });

  it.each([
    [['--modle', 'x'], 'Unknown flag --modle (did you mean --model?); vf-sample --help lists them all'],
    [['--m', 'x'], 'Unknown flag --m (did you mean -m?); vf-sample --help lists them all'],
    [['-z'], 'Unknown flag -z; vf-sample --help lists them all'],
    [['-n', 'x'], '-n must be an integer of at least 1, or -1 for all, got "x"'],
    [['--count', '0'], '--count must be an integer of at least 1, or -1 for all, got 0'],
    [['-n', '0x10'], '-n must be an integer of at least 1, or -1 for all, got "0x10"'],
    [['--port', '65536'], '--port must be an integer from 0 to 65535, got 65536'],
    [['-T', '-1'], '-T must be a number from 0 to 100, got -1'],
    [['--share', '0'], '--share must be a number above 0, got 0'],
    [['-n'], '-n needs a value: rows'],
    [['-m', ''], '-m needs a value: a model'],
    [['-m', '--json'], '-m needs a value: a model'],
    [['--resume='], '--resume has an empty value: a run'],
    [['--json=yes'], '--json takes no value, got "yes"'],
    [['--form', 'tgas'], '--form must be one of tags, text or none, got "tgas" (did you mean tags?)'],
    [['--set', 'x'], '--set must be key=value, such as a.b=1, got "x"'],
    [['--set', '=sk-secret'], '--set must be key=value, such as a.b=1, got "="'],
    [['-a', '[1]'], `-a must be a JSON object such as '{"topk": 5}', or key=value, got [1]`],
    [[''], '[file] is empty: a file; vf-sample --help shows more'],
    [['a', 'b'], 'vf-sample takes 2 arguments, <environment> [file], got 3: env a b'],
    [['--json', '--plain'], '--json and --plain exclude each other; leave one out'],
    [['--weight', 'judge'], '--weight must be name=number, such as format=0.2, got "judge"'],
    [['--weight', 'judge=much'], '--weight must be name=number, such as format=0.2, got "judge=much"'],
    [['--header', 'no colon sk-secret'], '--header must be "Name: value". The given value is not shown because it may be a secret.'],
  ])('says one sentence for %j', (words, sentence) => {
    const thrown = thrownBy(() => parse(...words));
    expect(thrown).toBeInstanceOf(ConfigError);
    expect((thrown as Error).message).toBe(sentence);
  });

  it('shows no secret of a value that it cannot read', () => {
    for (const words of [
      ['-a', '{"api_key": "sk-very-secret"'],
      ['--header', 'X: sk-very-secret\nY: 1'],
      ['--role', 'https://user:sk-very-secret@host'],
    ])
      expect(() => parse(...words)).toThrow(/^(?!.*sk-very-secret)/s);
  });

  it('names what is missing', () => {
    const several = defineCommand({
      name: 'vf-several',
      summary: 'Takes runs.',
      arguments: { runs: severalArguments('folders', { label: 'run directory' }) },
      options: table({ output: file('a file', { letter: 'o', required: true }) }),
      run: async () => 0,
    });
    expect(() => parseWords(several, [])).toThrow('<run directory...> is missing: folders; vf-several --help shows more');
    expect(() => parseWords(several, ['a'])).toThrow('-o is missing: a file; vf-several --help shows more');
    expect(parseWords(several, ['a', 'b', '-o', 'x']).arguments.runs).toEqual(['a', 'b']);
  });
});

describe('the kinds of option', () => {
  it('check the values of a file with the sentence of the command line', () => {
    const { count, envArgs, header, columns, json, resume } = sample.options;
    expect(() => count.check('5', `${keyOf('maxTokens')} in x.toml`)).toThrow(
      'max_tokens in x.toml must be an integer of at least 1, or -1 for all, got "5"',
    );
    expect(() => envArgs.check(5, 'env_args')).toThrow('env_args must be a table, got 5');
    expect(() => json.check('yes', 'json')).toThrow('json must be true or false, got "yes"');
    expect(() => resume.check(3, 'resume')).toThrow('resume must be true, false or a folder, got 3');
    expect(resume.check(false, 'resume')).toBe(false);
    expect(header.check({ A: 'b' }, 'header')).toEqual({ A: 'b' });
    expect(header.check(['A: b'], 'header')).toEqual({ A: 'b' });
    expect(columns.check('a,b', 'columns')).toEqual(['a', 'b']);
  });
});

describe('runWords', () => {
  const group = defineCommands({ name: 'vf-many', summary: 'Has commands.', commands: [{ ...sample, name: 'vf-many sample' }] });

  it('runs a command, or one of several, with its values', async () => {
    expect(await runWords(sample, ['env', '-n', '7'], quietContext())).toBe(7);
    expect(await runWords(group, ['sample', 'env', '-n', '8'], quietContext())).toBe(8);
  });

  it('starts what a run needs for a run alone, not to print help or the version', async () => {
    const started: string[] = [];
    const print = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    try {
      for (const words of [
        ['sample', '--help'],
        ['sample', 'env', '--help'],
        ['sample', '-V'],
        ['help', 'sample'],
        ['--version'],
        ['sample', 'env', '-n', '8'],
      ])
        await runWords(group, words, quietContext(), () => started.push(words.join(' ')));
    } finally {
      print.mockRestore();
    }
    expect(started).toEqual(['sample env -n 8']);
  });

  it('asks for the command before a flag of it', async () => {
    await expect(runWords(group, ['-n', '8', 'sample', 'env'], quietContext())).rejects.toThrow('Name a command before -n: sample');
    await expect(runWords(group, ['help', 'smaple'], quietContext())).rejects.toThrow('Unknown command smaple (did you mean sample?)');
  });

  it('says one sentence for an unknown command or flag of several commands', async () => {
    await expect(runWords(group, ['smaple'], quietContext())).rejects.toThrow(
      'Unknown command smaple (did you mean sample?); vf-many --help lists them all',
    );
    await expect(runWords(group, ['--hlep'], quietContext())).rejects.toThrow(
      'Unknown flag --hlep (did you mean --help?); vf-many --help lists them all',
    );
  });

  it('asks the command for a better sentence about a flag that it does not have', async () => {
    const knowing = {
      ...sample,
      explainUnknown: ({ flag: word, value }: { flag: string; value: string | null }) => (word === '--max-turns' ? `an argument: ${value}` : null),
    };
    await expect(runWords(knowing, ['env', '--max-turns', '3'], quietContext())).rejects.toThrow('an argument: 3');
    await expect(runWords(knowing, ['env', '--other'], quietContext())).rejects.toThrow('Unknown flag --other; vf-sample');
  });
});

describe('renderHelp', () => {
  it('lists every option under its heading, with default and repetition', () => {
    const help = renderHelp(sample);
    expect(help).toContain('  vf-sample <environment> [file] [options]');
    expect(help).toMatch(/^Numbers\n {2}-n, --count N +rows\n {6}--port N +a port \(default: 8000\)$/m);
    expect(help).toMatch(/^ {2}-a, --env-args JSON\|K=V +arguments; may be repeated$/m);
    expect(help).toMatch(/^ {2}-R, --resume \[DIR\] +a run$/m);
    expect(help.split('\n').filter((line) => line.length > 80)).toEqual([]);
  });
});
