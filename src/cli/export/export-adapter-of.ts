/** The work of `vf-export --adapter`. */
import { ConfigError } from '../../core/errors.ts';
import { exportAdapter } from '../../sessions/training/export-adapter.ts';
import type { CommandContext } from '../command-line.ts';

interface AdapterFlags {
  /** A new folder. */
  readonly output: string;
  readonly apiKeyVar?: string;
  readonly step?: number;
  readonly sft?: boolean;
  readonly minReward?: number;
  readonly best?: number;
}

/** Throws ConfigError for flags of rollouts, and as `exportAdapter` does. */
export async function exportAdapterOf(
  directory: string,
  { output, apiKeyVar = 'TINKER_API_KEY', ...rollouts }: AdapterFlags,
  { variables, signal, note }: CommandContext,
): Promise<void> {
  const { step, sft, minReward, best } = rollouts;
  if ([step, sft, minReward, best].some((value) => value !== undefined))
    throw new ConfigError('--adapter writes an adapter; leave the options of rollouts out');
  if (output === '-') throw new ConfigError('--adapter writes a folder; name a new one with -o');
  const path = await exportAdapter({ directory, output, apiKey: variables[apiKeyVar] ?? null, onNotice: note, signal });
  note(`the adapter ${path} is in ${output}`);
}
