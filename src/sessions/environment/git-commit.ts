/** The current commit of a checkout, read from its files because git may not be installed; null outside a checkout. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export function gitCommit(root: string): string | null {
  const git = join(root, '.git');
  const head = read(join(git, 'HEAD'))?.trim();
  if (head === undefined) return null;
  if (!head.startsWith('ref: ')) return commitOrNull(head);
  const ref = head.slice('ref: '.length);
  const packed = () =>
    read(join(git, 'packed-refs'))
      ?.split('\n')
      .find((line) => line.endsWith(` ${ref}`))
      ?.split(' ')[0];
  return commitOrNull(read(join(git, ref))?.trim() ?? packed() ?? '');
}

function commitOrNull(text: string): string | null {
  return /^[0-9a-f]{40,64}$/.test(text) ? text : null;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // Not a checkout, or one whose .git is a file (a worktree): the commit stays unknown.
    return undefined;
  }
}
