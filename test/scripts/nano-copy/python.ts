/** Runs programs with the modules of scripts/nano-copy, in a plain python3. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';

const SCRIPTS = path.join(import.meta.dirname, '../../../scripts/nano-copy');

/** What the program prints, which is one JSON value. It can use `json`, and `given` for `input`. */
export function python(program: string, input: unknown = null): unknown {
  const printed = execFileSync('python3', ['-c', `import json, sys\ngiven = json.load(sys.stdin)\n${program}`], {
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: SCRIPTS },
    encoding: 'utf8',
    input: JSON.stringify(input),
    maxBuffer: 1 << 26,
  });
  return JSON.parse(printed) as unknown;
}
