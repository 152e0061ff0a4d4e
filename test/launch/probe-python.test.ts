import { describe, expect, it } from 'vitest';
import { askPython } from '../../src/launch/probe-python.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';

describe('askPython', () => {
  it.each([
    ['nowhere/python', 'there is no such command'],
    ['file/below', 'it does not start: not a directory (ENOTDIR)'],
    [`./${'n'.repeat(300)}`, 'it does not start: name too long (ENAMETOOLONG)'],
    ['.', 'it does not start: permission denied (EACCES)'],
  ])('says in plain words why %s is no Python', async (path, why) => {
    using folder = new TemporaryFolder();
    folder.write('file', '');
    const python = path.startsWith('file') ? `${folder.path}/${path}` : path;
    const asked = askPython(python, '', { env: {}, signal: new AbortController().signal, remedy: 'Name another.' });
    await expect(asked).rejects.toMatchObject({ name: 'ConfigError', message: `Could not run the Python ${python}: ${why}. Name another.` });
  });
});
