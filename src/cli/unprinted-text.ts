/** What a command says whose lines could not be written to stdout or stderr, for example to a file on a full disk. */
import { errorMessage } from '../core/errors.ts';
import { isDiskFull } from '../files/disk-full.ts';
import { errnoText } from '../files/errno-text.ts';
import type { CommandContext } from './command-line.ts';

/** Names what is saved, and the command that prints or continues it. */
export function unprintedText(
  error: NodeJS.ErrnoException,
  stream: 'stdout' | 'stderr',
  { saved = null, continueWith = null }: Pick<CommandContext, 'saved' | 'continueWith'>,
): string {
  const why = errnoText(error) ?? errorMessage(error);
  const remedy = isDiskFull(error) ? 'Free some space, or send the output elsewhere' : 'Send the output elsewhere';
  if (saved === null) return `Cannot write to ${stream}: ${why}. ${remedy}, then run ${continueWith ?? 'the command again'}`;
  const again = continueWith === null ? '' : `. ${remedy}, and ${continueWith} prints them`;
  return `The results are saved in ${saved}; only printing them to ${stream} failed: ${why}${again}`;
}
