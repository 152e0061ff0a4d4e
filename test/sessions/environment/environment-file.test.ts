import { describe, expect, it } from 'vitest';
import { loadEnvironmentFile } from '../../../src/sessions/environment/environment-file.ts';
import { TemporaryFolder } from '../../cli/eval/temporary-folder.ts';

describe('loadEnvironmentFile', () => {
  it('adds what is missing and leaves what is there', () => {
    using folder = new TemporaryFolder();
    const path = folder.write('.env', 'VF_A=from file\nVF_B="quoted # text"\n# comment\nVF_EMPTY=\nexport VF_C=3\n');
    const environment: NodeJS.ProcessEnv = { VF_A: 'mine' };
    expect(loadEnvironmentFile(path, environment)).toEqual(['VF_B', 'VF_C']);
    expect(environment).toEqual({ VF_A: 'mine', VF_B: 'quoted # text', VF_C: '3' });
  });

  it('reads the first variable behind a byte order mark, and UTF-16 as PowerShell writes it', () => {
    using folder = new TemporaryFolder();
    const text = 'VF_BASE_URL=http://127.0.0.1:9/v1\r\nVF_MODEL=ü\r\n';
    const macOs = Buffer.from(text.replaceAll('\r\n', '\r'));
    const bigEndian = Buffer.from(`\ufeff${text}`, 'utf16le').swap16();
    for (const bytes of [Buffer.from(`\ufeff${text}`), Buffer.from(`\ufeff${text}`, 'utf16le'), bigEndian, macOs]) {
      const environment: NodeJS.ProcessEnv = {};
      expect(loadEnvironmentFile(folder.write('.env', bytes), environment)).toEqual(expect.arrayContaining(['VF_BASE_URL', 'VF_MODEL']));
      expect(environment).toEqual({ VF_BASE_URL: 'http://127.0.0.1:9/v1', VF_MODEL: 'ü' });
    }
  });

  it.each([
    ['UTF-16 without a mark', Buffer.from('VF_BASE_URL=x\n', 'utf16le'), /looks like UTF-16 without a byte order mark\. Convert/],
    ['UTF-32', Buffer.from('fffe000056000000', 'hex'), /is UTF-32\. Convert/],
    ['half a character of UTF-16', Buffer.from('fffe5600ff', 'hex'), /but is not UTF-16\. Convert/],
    ['Latin-1', Buffer.from('A=1\nB=M\xfcnchen\n', 'latin1'), /^Line 2 of .*\.env is not UTF-8\. Convert/],
    ['a line of PowerShell', Buffer.from('A=1\n$env:VF_BASE_URL="x"\n'), /^Line 2 of .* does not set VF_BASE_URL\. Write VF_BASE_URL=value$/],
    ['a line of YAML', Buffer.from('OPENAI_API_KEY: sk-1\n'), /^Line 1 of .* does not set OPENAI_API_KEY\. Write OPENAI_API_KEY=value$/],
    ['a name with an invisible character', Buffer.from('A=1\n\u200bVF_BASE_URL=x\n'), /has the character U\+200B, so no variable would be set/],
  ])('refuses %s, because a lost variable would go unnoticed', (_name, bytes, message) => {
    using folder = new TemporaryFolder();
    expect(() => loadEnvironmentFile(folder.write('.env', bytes), {})).toThrow(message);
  });

  it('does without a file, and names one that cannot be read', () => {
    using folder = new TemporaryFolder();
    expect(loadEnvironmentFile(`${folder.path}/.env`, {})).toEqual([]);
    expect(() => loadEnvironmentFile(folder.path, {})).toThrow(/: it is a folder; it must be a readable file of NAME=value lines/);
  });
});
