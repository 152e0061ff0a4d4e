/** The completion script of fish. */
import { ownName } from '../options/define-command.ts';
import type { CompletedCommand, CompletedOption, Offer } from './completion-words.ts';

/** @param commands `vf` and the commands that it names */
export function fishScript(commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap((command) => {
    const [, own] = /^vf-(.*)$/.exec(command.name) ?? [];
    const asPart = own === undefined ? [] : commandLines(command, 'vf', [own]);
    return [...commandLines(command, command.name, []), ...asPart];
  });
  return `# Completes the commands of vf-search. In fish: vf completion fish | source\n${lines.join('\n')}\n`;
}

/** @param before the words that lead from the program to the command */
function commandLines({ options, argument, below }: CompletedCommand, program: string, before: readonly string[]): string[] {
  const where = `complete -c ${program}`;
  const seen = before.map((word) => `__fish_seen_subcommand_from ${word}`);
  const none = below.length === 0 ? [] : [`not __fish_seen_subcommand_from ${argument.words.join(' ')}`];
  const condition = [...seen, ...none].join('; and ');
  const only = condition === '' ? '' : ` -n ${quoted(condition)}`;
  if (below.length === 0) {
    const offered = offerText(argument);
    return [...(offered === '' ? [] : [`${where}${only}${offered}`]), ...options.map((option) => `${where}${only}${optionText(option)}`)];
  }
  const named = below.map((command) => `${where}${only} -f -a ${quoted(ownName(command))} -d ${quoted(command.summary)}`);
  // What stands below vf has lines of its own, as a command.
  const inner = below.filter(({ name }) => name.includes(' ')).flatMap((command) => commandLines(command, program, [...before, ownName(command)]));
  return [...named, ...options.map((option) => `${where}${only}${optionText(option)}`), ...inner];
}

function optionText({ name, spellings, description, offer }: CompletedOption): string {
  const letter = spellings[1] === undefined ? '' : ` -s ${spellings[1].slice(1)}`;
  const value = offer === null ? '' : ` -r${offerText(offer) || ' -f'}`;
  return ` -l ${name}${letter}${value} -d ${quoted(description)}`;
}

/** Words, and files unless there are only words. */
function offerText({ words, paths }: Offer): string {
  const only = paths === null ? ' -f' : paths === 'folders' ? " -f -a '(__fish_complete_directories)'" : '';
  return words.length === 0 ? (paths === null ? '' : only) : `${only} -a ${quoted(words.join(' '))}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
