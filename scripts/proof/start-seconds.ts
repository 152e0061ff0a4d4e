/** The time that processes take to start, for proofs whose agents are processes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const AT_ONCE = 8;
const PROCESSES = 32;

/** Seconds per process where 8 start at the same time, as in the run: a mean over 32. Throws if one fails. */
export async function startSeconds([file, ...args]: readonly string[]): Promise<number> {
  const startedAtMs = performance.now();
  let left = PROCESSES;
  const startSome = async () => {
    while (left-- > 0) {
      const child = spawn(file!, args, { stdio: ['ignore', 'ignore', 'inherit'] });
      const [code] = (await once(child, 'close')) as [number | null];
      if (code !== 0) throw new Error(`${file} failed with exit code ${code}.`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, startSome));
  return (performance.now() - startedAtMs) / 1000 / PROCESSES;
}
