/** Declares `vf`, which runs every command by its short name and prints shell completion. */
import { argument, defineCommand, defineCommands } from '../options/define-command.ts';
import { ConfigError } from '../../core/errors.ts';
import { table } from '../options/option.ts';
import { suggestion } from '../../core/closest-name.ts';
import { ALL_COMMANDS } from './all-commands.ts';

const SHELLS = ['bash', 'zsh', 'fish'];

const NOTES = `
In ~/.bashrc or ~/.zshrc, with the name of the shell:
  source <(vf completion bash)
In ~/.config/fish/config.fish:
  vf completion fish | source`;

const completion = defineCommand({
  name: 'vf completion',
  summary: 'Prints the completion script of a shell.',
  arguments: { shell: argument('bash, zsh or fish', { completion: SHELLS }) },
  options: table({}),
  notes: NOTES,
  run: async ({ arguments: { shell } }) => {
    if (!SHELLS.includes(shell)) throw new ConfigError(`There is no completion for ${shell}${suggestion(shell, SHELLS)}; choose bash, zsh or fish`);
    const [{ completedCommand }, { bashScript }, { zshScript }, { fishScript }] = await Promise.all([
      import('../completion/completion-words.ts'),
      import('../completion/bash-script.ts'),
      import('../completion/zsh-script.ts'),
      import('../completion/fish-script.ts'),
    ]);
    const scriptOf = shell === 'bash' ? bashScript : shell === 'zsh' ? zshScript : fishScript;
    process.stdout.write(scriptOf([vf, ...ALL_COMMANDS].map(completedCommand)));
  },
});

export const vf = defineCommands({
  name: 'vf',
  summary: 'Runs a command of vf-search by its short name: "vf eval" is vf-eval.',
  commands: [...ALL_COMMANDS, completion],
});
