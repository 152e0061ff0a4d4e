/** The help of a command, in 80 columns, from its declaration. */
import { wrap } from '../../reports/text/terminal-text.ts';
import { type AnyCommand, argumentText, type Command, type CommandGroup, ownName } from './define-command.ts';
import { flagOf, type Option } from './option.ts';

/** Columns of every help, regardless of the terminal's width. */
const WIDTH = 80;
/** The column at which the description of an option begins. */
const COLUMN = 32;

type Style = (heading: string) => string;

/** @param style colours a heading */
export function renderHelp(command: AnyCommand, style: Style = (heading) => heading): string {
  const parts = 'commands' in command ? groupParts(command, style) : commandParts(command, style);
  return `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

function groupParts({ name, summary, commands, notes }: CommandGroup, style: Style): readonly (readonly string[])[] {
  return [
    wrap(summary, WIDTH, { wholeWords: true }),
    [style('Usage'), `  ${name} <command> [options]`],
    [style('Commands'), ...commands.flatMap((command) => entry(`  ${ownName(command)}`, clauseOf(command.summary), 16))],
    ...notesOf(notes),
    [`${name} <command> --help shows the options of a command, with examples.`],
  ];
}

function commandParts(command: Command, style: Style): readonly (readonly string[])[] {
  const { summary, arguments: table, examples = [] } = command;
  const described = Object.entries(table);
  return [
    wrap(summary, WIDTH, { wholeWords: true }),
    [style('Usage'), ...usageOf(command).map((line) => `  ${line}`)],
    ...(described.length === 0
      ? []
      : [[style('Arguments'), ...described.flatMap(([key, argument]) => entry(`  ${argumentText(key, argument)}`, argument.description))]]),
    ...(examples.length === 0
      ? []
      : [[style('Examples'), ...examples.flatMap(([line, does]) => [...line.split('\n').map((part) => `  ${part}`), ...indented(does, 6)])]]),
    ...optionGroups(command).map(({ heading, options }) => [style(heading), ...options.flatMap(({ left, says }) => entry(left, says))]),
    ...notesOf(typeof command.notes === 'function' ? command.notes() : command.notes),
  ];
}

/** The first clause of a summary. */
function clauseOf(summary: string): string {
  return summary.split(/: |\. /, 1)[0]!.replace(/\.$/, '');
}

function notesOf(notes: string | undefined): string[][] {
  return notes === undefined ? [] : [notes.replace(/^\n+|\n+$/g, '').split('\n')];
}

/** The lines of usage. */
export function usageOf({ name, usage, arguments: table }: Command): readonly string[] {
  if (usage !== undefined) return usage;
  return [[name, ...Object.entries(table).map(([key, argument]) => argumentText(key, argument)), '[options]'].join(' ')];
}

export interface OptionLine {
  /** `-n, --num-examples N`, indented by two. */
  readonly left: string;
  /** Meaning with default. */
  readonly says: string;
}

/** The options under their headings, in the order of the declaration; help and version end the last group. */
export function optionGroups({
  options,
}: Pick<Command, 'options'>): readonly { readonly heading: string; readonly options: readonly OptionLine[] }[] {
  const groups = Object.entries(Object.groupBy(Object.entries(options), ([, { group }]) => group)).map(([heading, members = []]) => ({
    heading,
    options: members.map(([name, option]) => ({ left: spellings(name, option), says: meaning(option) })),
  }));
  const last = groups.at(-1) ?? { heading: 'Options', options: [] };
  const builtIn = [
    { left: '  -h, --help', says: 'print this help' },
    { left: '  -V, --version', says: 'print the version' },
  ];
  return [...groups.slice(0, -1), { ...last, options: [...last.options, ...builtIn] }];
}

function spellings(name: string, { letter, takes, placeholder }: Option): string {
  const value = takes === 'nothing' ? '' : takes === 'a value' ? ` ${placeholder}` : ` [${placeholder}]`;
  return `  ${letter === null ? '    ' : `-${letter}, `}${flagOf(name)}${value}`;
}

function meaning({ description, isRepeatable, fallbackText, isRequired }: Option): string {
  const repeated = isRepeatable ? '; may be repeated' : '';
  return `${description}${repeated}${fallbackText !== null ? ` (default: ${fallbackText})` : isRequired ? ' (required)' : ''}`;
}

function entry(left: string, says: string, column = COLUMN): string[] {
  const lines = wrap(says, WIDTH - column, { wholeWords: true });
  const isShort = left.length < column - 1;
  const first = isShort ? [left.padEnd(column) + lines[0]!] : [left, ' '.repeat(column) + lines[0]!];
  return [...first, ...lines.slice(1).map((line) => ' '.repeat(column) + line)];
}

function indented(text: string, by: number): string[] {
  return wrap(text, WIDTH - by, { wholeWords: true }).map((line) => ' '.repeat(by) + line);
}
