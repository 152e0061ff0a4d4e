/**
 * Short answers scored by a judge. `npx vf-eval examples/judged-answers.ts` uses the environment's builtin judge, which needs no model;
 * `--role judge=gpt-4.1-mini@https://api.openai.com/v1` uses a model instead. Run directly, this file plays a script with one wrong answer.
 */
import { Dataset, exactMatchJudge, JudgeRubric, type RoleDeclarations, type Row, SingleTurnEnv } from 'vf-search';
import { runRollouts } from 'vf-search/rollouts';
import { ScriptedClient } from 'vf-search/clients/scripted';

export const roles = {
  judge: {
    about: 'scores how well an answer agrees with the reference answer',
    default: 'builtin',
    builtin: exactMatchJudge({ match: 'contains' }),
  },
} satisfies RoleDeclarations;

const QUESTIONS: readonly [question: string, answer: string][] = [
  ['What is the capital of France?', 'Paris'],
  ['Who wrote Hamlet?', 'Shakespeare'],
  ['How many legs has a spider?', 'eight'],
];

export function loadEnvironment(): SingleTurnEnv {
  const rows: Row[] = QUESTIONS.map(([question, answer], i) => ({
    exampleId: i,
    prompt: [{ role: 'user', content: `${question} Answer in a few words.` }],
    answer,
  }));
  return new SingleTurnEnv({ id: 'judged-answers', eval: new Dataset('questions', rows), rubric: new JudgeRubric(), roles });
}

if (import.meta.main) {
  const environment = loadEnvironment();
  const client = new ScriptedClient({
    kind: 'chat',
    turns: ({ key }) => (key === '1/0' ? 'Marlowe did.' : `It is ${QUESTIONS[Number(key![0])]![1]}.`),
  });
  // The builtin judge plays its role, as in vf-eval. Another model: `models: await openRoleModels({ judge: { model } })`.
  const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
  const { signal } = new AbortController();
  const options = {
    environment,
    client,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: 1,
    timeoutMs: null,
    seed: 0,
    signal,
  };
  const rewards: (number | null)[] = [];
  for await (const { rollouts } of runRollouts(groups, options)) {
    const { row, reward, asked } = rollouts[0]!;
    rewards.push(reward);
    console.log(`${row.answer}: reward ${reward}; the judge wrote ${asked[0]?.text}`);
  }
  if (rewards.join() !== '1,0,1') process.exitCode = 1;
}
