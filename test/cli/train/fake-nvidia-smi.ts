/** An executable nvidia-smi for tests: lists cards of these sizes, in GiB, with what is used of them. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes it into the folder, which goes in front of PATH. */
export function fakeNvidiaSmi(folder: string, cards: readonly { readonly gib: number; readonly usedGib?: number }[]): void {
  const lines = cards.map(({ gib, usedGib = 0 }, i) => `${i}, GPU-uuid-${i}, NVIDIA H100, ${usedGib * 1024}, ${gib * 1024}, 580.1`);
  const path = join(folder, 'nvidia-smi');
  writeFileSync(path, `#!/bin/sh\ncat <<'END'\n${lines.join('\n')}\nEND\n`);
  chmodSync(path, 0o755);
}
