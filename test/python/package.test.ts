/** Runs the tests of the Python package, which need Python alone and a built dist. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

const ROOT = join(import.meta.dirname, '../..');
const PYTHON = ['python3', 'python3.12', 'python3.11', 'python3.13'].find(
  (python) => spawnSync(python, ['-c', 'import sys; sys.exit(sys.version_info < (3, 11))']).status === 0,
);

// Skipped without Python 3.11 or newer, and before `npm run build`: the tests start the compiled commands.
describe.skipIf(PYTHON === undefined || !existsSync(join(ROOT, 'dist/src')))('the Python package', () => {
  it('passes its own tests over a real server', () => {
    const { status, stderr } = spawnSync(
      PYTHON!,
      ['-m', 'unittest', 'tests.test_environment', 'tests.test_connections', 'tests.test_play', 'tests.test_session'],
      {
        cwd: join(ROOT, 'python'),
        encoding: 'utf8',
        env: { ...BARE_ENVIRONMENT, VF_SERVE: JSON.stringify([process.execPath, 'bin/vf-serve.js']), VF_ROOT: ROOT },
        timeout: 120_000,
      },
    );
    expect(stderr).toMatch(/Ran 22 tests[^]*OK/);
    expect(status).toBe(0);
  }, 130_000);
});
