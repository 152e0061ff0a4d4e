/** The completion script of zsh: that of bash, which zsh runs by itself. */
import { bashScript } from './bash-script.ts';
import type { CompletedCommand } from './completion-words.ts';

export function zshScript(commands: readonly CompletedCommand[]): string {
  return `# Completes the commands of vf-search. In zsh: source <(vf completion zsh)
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
${bashScript(commands)}`;
}
