/** Writes docs/commands.md from the declarations of the commands: `node --conditions=vf-search-source scripts/commands-doc.ts`. A test checks that it is current. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ALL_COMMANDS } from '../src/cli/commands/all-commands.ts';
import { type Command, leafCommands } from '../src/cli/options/define-command.ts';
import { optionGroups, usageOf } from '../src/cli/options/render-help.ts';

const INTRODUCTION = `# Commands

<!-- Written by scripts/commands-doc.ts from src/cli/commands. Do not edit. -->

Every option of every command. \`--help\` of a command says the same, with notes. \`vf eval\` is \`vf-eval\`, and so on; \`vf completion bash\` (or \`zsh\`, \`fish\`) prints a completion script for the shell:
\`source <(vf completion bash)\` in \`~/.bashrc\`, or \`vf completion fish | source\` in fish.
`;

/** The page, in Markdown. */
export function commandsDocument(): string {
  return [INTRODUCTION, ...ALL_COMMANDS.flatMap(leafCommands).map(section)].join('\n');
}

function section(command: Command): string {
  const { name, summary, examples = [] } = command;
  const shown = examples.flatMap(([line, does]) => [`# ${does}`, line]);
  return [
    `## ${name}\n`,
    `${summary}\n`,
    block('text', usageOf(command)),
    ...(shown.length === 0 ? [] : [block('bash', shown)]),
    ...optionGroups(command).map(
      ({ heading, options }) =>
        `| ${heading} | |\n| --- | --- |\n${options.map(({ left, says }) => `| \`${cell(left.trim())}\` | ${cell(says)} |`).join('\n')}\n`,
    ),
  ].join('\n');
}

function block(language: string, lines: readonly string[]): string {
  return `\`\`\`${language}\n${lines.join('\n')}\n\`\`\`\n`;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

if (process.argv[1] === import.meta.filename) writeFileSync(join(import.meta.dirname, '../docs/commands.md'), commandsDocument());
