/** What a shell needs to know of the commands to complete their lines, from their declarations. */
import { bundledEnvironments } from '../../registry/find-environment.ts';
import { bundledPresets } from '../../sessions/environment/presets.ts';
import { type AnyCommand, type Command, ownName } from '../options/define-command.ts';
import { type Completion, flagOf, type Option } from '../options/option.ts';

/** What a shell offers in one place. */
export interface Offer {
  readonly words: readonly string[];
  /** Files or folders as well as the words. */
  readonly paths: 'files' | 'folders' | null;
}

export interface CompletedOption {
  readonly name: string;
  /** `--model` and `-m`. */
  readonly spellings: readonly string[];
  readonly description: string;
  /** Null for a switch. */
  readonly offer: Offer | null;
}

export interface CompletedCommand {
  /** `vf-eval`, or `vf-serve policy`. */
  readonly name: string;
  readonly summary: string;
  /** The commands below it. */
  readonly below: readonly CompletedCommand[];
  readonly options: readonly CompletedOption[];
  readonly argument: Offer;
}

const NOTHING: Offer = { words: [], paths: null };

export function completedCommand(command: AnyCommand): CompletedCommand {
  const { name, summary } = command;
  if ('commands' in command) {
    const below = command.commands.map(completedCommand);
    return { name, summary, below, options: BUILT_IN, argument: { words: command.commands.map(ownName), paths: null } };
  }
  const options = Object.entries(command.options).map(([key, option]) => completedOption(key, option));
  return { name, summary, below: [], options: [...options, ...BUILT_IN], argument: argumentOffer(command) };
}

const BUILT_IN: readonly CompletedOption[] = [
  { name: 'help', spellings: ['--help', '-h'], description: 'print the help', offer: null },
  { name: 'version', spellings: ['--version', '-V'], description: 'print the version', offer: null },
];

function completedOption(key: string, { letter, description, takes, completion }: Option): CompletedOption {
  const flag = flagOf(key);
  const offer = takes === 'nothing' ? null : offerOf(completion);
  return { name: flag.slice(2), spellings: [flag, ...(letter === null ? [] : [`-${letter}`])], description, offer };
}

function argumentOffer({ arguments: table }: Command): Offer {
  const offers = Object.values(table).map(({ completion }) => offerOf(completion));
  return { words: offers.flatMap(({ words }) => words), paths: offers.find(({ paths }) => paths !== null)?.paths ?? null };
}

function offerOf(completion: Completion): Offer {
  if (completion === null) return NOTHING;
  if (completion === 'files' || completion === 'folders') return { words: [], paths: completion };
  if (completion === 'environments') return { words: bundledEnvironments(), paths: 'files' };
  if (completion === 'presets') return { words: [...new Set(bundledPresets().map(({ name }) => name))], paths: null };
  return { words: completion, paths: null };
}
