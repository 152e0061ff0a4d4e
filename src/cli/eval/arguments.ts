/** Parses the command line of `vf-eval` into typed values. Applies no defaults: options that were not given are absent. */
import { parseArgs } from 'node:util';
import { ConfigError } from '../../core/errors.ts';
import { suggestion } from '../../core/closest-name.ts';
import { type Flag, type FlagName, FLAGS, LEFT_OUT } from './flags.ts';
import { readSetting, type Settings } from './settings.ts';

export interface Arguments {
  /** An environment id or path, or a TOML file; null if only `-R DIR` or nothing was given. */
  readonly target: string | null;
  readonly settings: Settings;
  /** The flags that were given, in order, without values. */
  readonly given: readonly FlagName[];
  /** The arguments without `-R` and its directory. */
  readonly words: readonly string[];
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number];

/** Throws ConfigError for an unknown flag, a missing or wrong value, or a second environment. */
export function parseArguments(argv: readonly string[]): Arguments {
  const options = Object.fromEntries(
    FLAGS.map((f: Flag) => [
      f.name,
      { type: takesValue(f) ? 'string' : 'boolean', multiple: true, ...(f.letter ? { short: f.letter } : {}) } as const,
    ]),
  );
  // Not strict: the parser's own errors name no remedy, and it would refuse `-n -1`.
  const { tokens } = parseArgs({ args: [...argv], options, tokens: true, strict: false, allowPositionals: true });
  const settings: Record<string, unknown> = {};
  const given: FlagName[] = [];
  const dropped = new Set<number>();
  const positionals: string[] = [];
  const positionalCount = tokens.filter((t) => t.kind === 'positional').length;
  for (const [i, token] of tokens.entries()) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const flag = FLAGS.find((f) => f.name === token.name);
    if (flag === undefined) throw unknownFlag(token.rawName);
    given.push(flag.name);
    const text = flag.kind === 'resume' ? resumeValue(token, tokens[i + 1], positionalCount) : token.value;
    if (flag.kind === 'resume' && /^(-R|--resume(=.*)?)$/.test(argv[token.index]!)) {
      dropped.add(token.index);
      if (text !== undefined && token.value === undefined) dropped.add(token.index + 1);
    }
    if (flag.kind === 'switch' && token.value !== undefined) throw new ConfigError(`${token.rawName} takes no value, got "${token.value}"`);
    if (takesValue(flag) && (text === undefined || text === '')) throw new ConfigError(`${token.rawName} needs a value: ${flag.help}`);
    settings[flag.name] = readSetting(flag, text, token.rawName, settings[flag.name]);
  }
  // `-R DIR`: the parser above takes the directory for a positional argument.
  const targets = positionals.filter((p) => p !== settings['resume'] || positionals.length === 1);
  if (targets.length > 1) throw new ConfigError(`vf-eval takes one environment or TOML file, got ${targets.length}: ${targets.join(' ')}`);
  return { target: targets[0] ?? null, settings, given, words: argv.filter((_, i) => !dropped.has(i)) };
}

function takesValue(flag: Flag): boolean {
  return flag.kind !== 'switch' && flag.kind !== 'resume';
}

/** `-R` may have no value: the next word is its directory only if there is another word for the environment. */
function resumeValue(token: Extract<Token, { kind: 'option' }>, next: Token | undefined, positionalCount: number): string | undefined {
  if (token.value !== undefined) return token.value;
  if (next?.kind !== 'positional' || next.index !== token.index + 1) return undefined;
  return positionalCount > 1 ? next.value : undefined;
}

function unknownFlag(raw: string): ConfigError {
  const reason = LEFT_OUT[raw];
  if (reason !== undefined) return new ConfigError(`vf-eval does not have the flag ${raw} of verifiers v0: ${reason}`);
  const known = FLAGS.flatMap((f: Flag) => (raw.startsWith('--') ? [`--${f.name}`] : f.letter ? [`-${f.letter}`] : []));
  const near = raw.startsWith('--') ? suggestion(raw, known) : '';
  return new ConfigError(`Unknown flag ${raw}${near}; vf-eval --help lists them all`);
}
