/** The same mistakes, played against the declaration of every command: one sentence each, whatever the command. */
import { describe, expect, it } from 'vitest';
import { ALL_COMMANDS } from '../../../src/cli/commands/all-commands.ts';
import { vf } from '../../../src/cli/commands/vf.ts';
import { leafCommands } from '../../../src/cli/options/define-command.ts';
import { flagOf, type Option } from '../../../src/cli/options/option.ts';
import { parseWords } from '../../../src/cli/options/parse-words.ts';
import { optionGroups, renderHelp, usageOf } from '../../../src/cli/options/render-help.ts';
import { runWords } from '../../../src/cli/options/run-defined.ts';
import { quietContext } from './quiet-context.ts';

const commands = [...ALL_COMMANDS, vf].flatMap(leafCommands);
const options = commands.flatMap((command) => Object.entries(command.options).map(([name, option]) => ({ command, name, option })));
const label = ({ command, name }: (typeof options)[number]) => `${command.name} ${flagOf(name)}`;

/** Sentences that do not fit, each with the option that says it. */
function misfits(chosen: (option: Option) => boolean, word: string, sentence: (flag: string) => RegExp): string[] {
  return options
    .filter(({ option }) => chosen(option))
    .flatMap((one) => {
      const flag = flagOf(one.name);
      try {
        parseWords(one.command, [`${flag}${word}`]);
      } catch (error) {
        return sentence(flag).test((error as Error).message) ? [] : [`${label(one)}: ${(error as Error).message}`];
      }
      return [`${label(one)}: no error`];
    });
}

function thrownBy(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return (error as Error).message;
  }
  return '';
}

describe('every command', () => {
  it('is among the listed ones', () => {
    expect(commands.length).toBeGreaterThan(2);
    expect(options.length).toBeGreaterThan(15);
  });

  it('has examples, which its group promises, and a summary that fits into a line of the list of its group', () => {
    expect(commands.filter(({ name, examples = [] }) => name !== 'vf completion' && examples.length === 0).map(({ name }) => name)).toEqual([]);
    for (const group of [vf, ...ALL_COMMANDS]) {
      if (!('commands' in group)) continue;
      const [, list = ''] = renderHelp(group).split('Commands\n');
      expect(list.split('\n\n', 1)[0]!.split('\n')).toHaveLength(group.commands.length);
    }
  });

  it('says "Unknown flag" and where the flags are listed', async () => {
    for (const command of commands) {
      await expect(runWords(command, ['--frobnicate-all'], quietContext())).rejects.toThrow(
        `Unknown flag --frobnicate-all; ${command.name} --help lists them all`,
      );
    }
  });

  it('says "needs a value" for each option without its value', () => {
    expect(
      misfits(
        ({ takes }) => takes === 'a value',
        '',
        (flag) => new RegExp(`^${flag} needs a value: .`),
      ),
    ).toEqual([]);
    expect(
      misfits(
        ({ takes, mayBeEmpty }) => takes === 'a value' && !mayBeEmpty,
        '=',
        (flag) => new RegExp(`^${flag} needs a value: .`),
      ),
    ).toEqual([]);
  });

  it('says "takes no value" for each switch with one', () => {
    expect(
      misfits(
        ({ takes }) => takes === 'nothing',
        '=x',
        (flag) => new RegExp(`^${flag} takes no value, got "x"$`),
      ),
    ).toEqual([]);
  });

  it('shows for each table an object that it takes, and for fields of a request no argument of an environment', () => {
    const tables = options.filter(({ option }) => option.placeholder === 'JSON|K=V');
    expect(tables.length).toBeGreaterThan(5);
    for (const { name, option } of tables) {
      const message = thrownBy(() => option.parse('[1]', '-x', undefined));
      const [, example = ''] = /such as '(\{.*\})', or key=value, got \[1\]$/.exec(message) ?? [];
      expect(option.parse(example, '-x', undefined)).toEqual(JSON.parse(example));
      expect(name === 'samplingArgs' && example.includes('topk')).toBe(false);
    }
  });

  it('says what each number must be', () => {
    const isNumber = ({ placeholder, takes }: Option) => takes === 'a value' && ['N', 'X', 'S', 'USD'].includes(placeholder);
    expect(misfits(isNumber, '=x', (flag) => new RegExp(`^${flag} must be (an integer|a number|1)( .*)?, got "x"$`))).toEqual([]);
  });

  it('names an argument too many', () => {
    for (const command of commands) {
      const table = Object.values(command.arguments);
      if (table.some(({ isMany }) => isMany)) continue;
      const words = Array.from({ length: table.length + 1 }, (_, i) => `word${i}`);
      expect(() => parseWords(command, words)).toThrow(`, got ${words.length}: ${words.join(' ')}`);
    }
  });

  it('has no letter and no flag twice', () => {
    for (const { options: declared } of commands) {
      const letters = Object.values(declared).flatMap(({ letter }) => letter ?? []);
      expect(new Set([...letters, 'h', 'V']).size).toBe(letters.length + 2);
      expect(Object.keys(declared).filter((name) => ['help', 'version'].includes(name))).toEqual([]);
    }
  });

  it('explains itself in 80 columns: summary, usage, every option', () => {
    for (const command of [...ALL_COMMANDS, ...commands]) {
      const help = renderHelp(command);
      expect(help.split('\n').filter((line) => line.length > 80)).toEqual([]);
      if ('commands' in command) continue;
      for (const line of usageOf(command)) expect(help).toContain(`  ${line}\n`);
      for (const { options: lines } of optionGroups(command)) for (const { left } of lines) expect(help).toContain(left);
    }
  });
});
