/** Declares `vf-init`, which writes a new environment that is ready to evaluate with `vf-eval`. */
import { IS_PUBLISHED } from '../../core/is-published.ts';
import { argument, defineCommand } from '../options/define-command.ts';
import { flag, folder, oneOf } from '../options/kinds.ts';
import { AGENT_KINDS } from '../../templates/agent-kinds.ts';
import { table } from '../options/option.ts';

const NOTES = `
The files work as written; change them to make them your own:
  environment.ts        the environment: what a search returns, what ends an
                        episode, what is rewarded
  rows.jsonl            16 questions with their answers
  environment.test.ts   a test that plays an episode step by step
  package.json          the "verifiers" key: id, entry, default size of an
                        evaluation (left out inside the repository of vf-search
                        itself)
  README.md             instructions for users
An agent (--agent) lies in agent.ts or agent.py, and its packages are those of
its package.json: npm install --prefix environments/<id>

Then: vf-eval <id>, and vf-eval --help for models, sampling and results.`;

export const vfInit = defineCommand({
  name: 'vf-init',
  summary: 'Writes a new environment in TypeScript, ready to evaluate.',
  arguments: { id: argument('its name: lower-case words joined by hyphens') },
  options: table({
    tools: flag('write a chat environment with a native tool; by default the model writes its searches as <search> tags'),
    agent: oneOf(AGENT_KINDS, `write an agent whose model is the policy: ${AGENT_KINDS.slice(0, -1).join(', ')}, or command for a program in Python`),
    dir: folder('folder of the environments', { default: 'environments' }),
  }),
  examples: [
    ['vf-init capital-quiz', 'writes environments/capital-quiz/'],
    ['vf-init capital-quiz --tools', 'the same task, with a native tool'],
    ['vf-init note-agent --agent ai-sdk', 'the same task for an agent of the AI SDK'],
    ['vf-init capital-quiz --dir envs', 'writes envs/capital-quiz/'],
    ...(IS_PUBLISHED ? ([['npx -p vf-search vf-init my-env', 'without vf-search installed']] as const) : []),
  ],
  conflicts: [['tools', 'agent']],
  notes: NOTES,
  run: async ({ arguments: { id }, options, context }) => {
    const { initEnvironment } = await import('../init/init-environment.ts');
    return initEnvironment(id, options, context);
  },
});
