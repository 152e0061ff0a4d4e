import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { bubblewrapCommand } from '../../src/execution/process/sandbox-command.ts';

const root = realpathSync(mkdtempSync(join(tmpdir(), 'prefixes-')));
afterAll(() => rmSync(root, { recursive: true }));

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(root, 'home-'));
  mkdirSync(join(home, 'bin'));
});

const system = realpathSync('/usr/bin/env');
/** Folders that programs see, without the system's. */
const shown = (python: string) => {
  const { args } = bubblewrapCommand('/usr/bin/bwrap', python);
  return args.filter((_, i) => args[i - 1] === '--ro-bind').filter((path) => !/^\/(usr|lib\w*|bin)$/.test(path));
};
const command = (python: string) => bubblewrapCommand('/usr/bin/bwrap', python).args.at(-1);

describe('bubblewrapCommand', () => {
  it('shows no folder of a user where a link to the system’s Python lies', () => {
    const link = join(home, 'bin/python3');
    symlinkSync(system, link);
    expect({ shown: shown(link), command: command(link) }).toEqual({ shown: [], command: system });
    // Where /bin is a link.
    expect(shown('/bin/env')).toEqual([]);
  });

  it('shows a virtual environment', () => {
    const link = join(home, 'bin/python3');
    symlinkSync(system, link);
    mkdirSync(join(home, 'lib/python3.12'), { recursive: true });
    writeFileSync(join(home, 'pyvenv.cfg'), '');
    expect({ shown: shown(link), command: command(link) }).toEqual({ shown: [home], command: link });
  });

  it('refuses a Python among other files', () => {
    writeFileSync(join(home, 'bin/python3'), '');
    expect(() => shown(join(home, 'bin/python3'))).toThrow(ConfigError);
  });
});
