import { describe, expect, it } from 'vitest';
import { loadEnvironmentFile } from '../../../src/sessions/environment/environment-file.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

describe('loadEnvironmentFile', () => {
  it('adds what is missing and leaves what is there', () => {
    using folder = new TemporaryFolder();
    const path = folder.write('.env', 'A=from file\nB="quoted # text"\n# comment\nEMPTY=\nexport C=3\n');
    const environment: NodeJS.ProcessEnv = { A: 'mine' };
    expect(loadEnvironmentFile(path, environment)).toEqual(['B', 'C']);
    expect(environment).toEqual({ A: 'mine', B: 'quoted # text', C: '3' });
  });

  it('does without a file, and names one that cannot be read', () => {
    using folder = new TemporaryFolder();
    expect(loadEnvironmentFile(`${folder.path}/.env`, {})).toEqual([]);
    expect(() => loadEnvironmentFile(folder.path, {})).toThrow(/: EISDIR; it must be a readable file of NAME=value lines/);
  });
});
