/** The completion scripts: that of bash in a real bash, those of zsh and fish in their shells where these are installed. */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { bashScript } from '../../../src/cli/completion/bash-script.ts';
import { completedCommand } from '../../../src/cli/completion/completion-words.ts';
import { fishScript } from '../../../src/cli/completion/fish-script.ts';
import { zshScript } from '../../../src/cli/completion/zsh-script.ts';
import { ALL_COMMANDS } from '../../../src/cli/commands/all-commands.ts';
import { vf } from '../../../src/cli/commands/vf.ts';
import { leafCommands } from '../../../src/cli/options/define-command.ts';
import { flagOf } from '../../../src/cli/options/option.ts';

const commands = [vf, ...ALL_COMMANDS].map(completedCommand);
const CALL = `
COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _vf_search; printf '%s\\n' "\${COMPREPLY[@]}"`;

/** What bash offers for the last of the words. */
function offered(...words: string[]): string[] {
  const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-c', bashScript(commands) + CALL, 'bash', ...words], {
    encoding: 'utf8',
    cwd: import.meta.dirname,
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  return stdout.split('\n').filter((line) => line !== '');
}

const isInstalled = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0;

describe('the completion of bash', () => {
  it('offers commands, and the commands below them', () => {
    expect(offered('vf', 's')).toEqual(['score', 'seed', 'serve']);
    expect(offered('vf-serve', '')).toEqual(['environment', 'execute', 'gateway', 'policy', 'retrieve', 'tinker', 'verifiers']);
    expect(offered('vf', 'serve', 'p')).toEqual(['policy']);
    expect(offered('vf', 'completion', '')).toEqual(['bash', 'zsh', 'fish']);
  });

  it('offers every option of every command', () => {
    for (const command of [vf, ...ALL_COMMANDS].flatMap(leafCommands)) {
      const flags = [...Object.keys(command.options).map(flagOf), '--help', '--version'];
      expect(offered(...command.name.split(' '), '--').toSorted()).toEqual(flags.toSorted());
    }
  });

  it('offers the values of an option, after a space, after an equals sign and after its letter', () => {
    expect(offered('vf-seed', 'worked-problems', '--form', 't')).toEqual(['tags', 'text']);
    expect(offered('vf-serve', 'policy', '--logprobs-mode', '=', 'r')).toEqual(['raw_logprobs']);
    expect(offered('/usr/bin/vf-train', 'search-r1', '--preset', 'lap')).toContain('laptop');
    expect(offered('vf-index', '-o', 'compl')).toEqual([]);
  });

  it('offers environments and files as an argument', () => {
    expect(offered('vf-train', 'search-')).toEqual(['search-o1', 'search-r1']);
    expect(offered('vf-index', 'compl')).toEqual(['completion.test.ts']);
  });
});

describe('the completion of zsh and fish', () => {
  // Each is skipped where its shell is not installed: no other program can read the script.
  it.skipIf(!isInstalled('zsh'))('is text that zsh reads', () => {
    expect(spawnSync('zsh', ['-n', '-c', zshScript(commands)], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
  });

  it.skipIf(!isInstalled('fish'))('is text that fish reads', () => {
    expect(spawnSync('fish', ['--no-execute', '-c', fishScript(commands)], { encoding: 'utf8' })).toMatchObject({
      status: 0,
      stderr: '',
    });
  });

  it('names every option for fish, under its command and under vf', () => {
    const lines = fishScript(commands).split('\n');
    for (const command of ALL_COMMANDS.flatMap(leafCommands))
      for (const name of Object.keys(command.options)) {
        const program = command.name.split(' ')[0]!;
        const named = (start: string) => lines.some((line) => line.startsWith(start) && line.includes(` -l ${flagOf(name).slice(2)} `));
        expect([command.name, name, named(`complete -c ${program} `), named('complete -c vf -n ')]).toEqual([command.name, name, true, true]);
      }
  });
});
