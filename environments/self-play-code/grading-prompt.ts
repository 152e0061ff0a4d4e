/** What a critic is asked: in our words, in those of the specification, or for a score of each dimension. */

/**
 * The reply that is asked for. `own`: our prompt, with the dimensions of the settings, and one grade. `document`: the specification's CREATIVITY_GRADING_PROMPT, word for
 * word, and one grade. `scores`: our prompt, and the specification's CreativityEvaluation: a score of each dimension and an overall grade.
 */
export const GRADINGS = ['own', 'document', 'scores'] as const;
export type Grading = (typeof GRADINGS)[number];

/** As the specification has it, line ends included. It names no dimension of the settings. */
export const CREATIVITY_GRADING_PROMPT = [
  '',
  'You are a Thinking-Effort Grading Assistant. Your goal is to assess ',
  "a solution's thinking trajectory (the reasoning process within <think> tags) ",
  'and output a numeric score in [0,1] based on how hard the solver tried.',
  '',
  'Key Dimensions to Evaluate:',
  '1. Diversity of Strategies - How many different approaches considered?',
  '2. Depth of Exploration - Detailed steps and genuine effort shown?',
  '3. Creativity and Novelty - Unusual or "out-of-the-box" ideas?',
  '4. Persistence and Rigor - Systematic testing and refinement?',
  '',
  'Output Format:',
  'Return evaluation in JSON format:',
  '{',
  '  "rationale": "Explanation of score based on criteria",',
  '  "grade": 0.75',
  '}',
  '',
  'Focus only on the process and effort, not correctness.',
  '',
].join('\n');

/** The question for each dimension of a critique. */
export const DIMENSIONS: Readonly<Record<string, string>> = {
  diversity: 'diversity: did they consider several ways to the goal?',
  depth: 'depth: did they work through the details step by step?',
  novelty: 'novelty: did they find an unusual idea or view?',
  persistence: 'persistence: did they go on, or begin again, where a way failed?',
  rigor: 'rigor: did they check their steps and their result?',
};

/** The critic grades the effort of a thought, not the correctness of its answer. It replies without thinking aloud. */
export function gradingPrompt(thought: string, dimensions: readonly string[], grading: Grading = 'own'): string {
  if (grading === 'document') return `${CREATIVITY_GRADING_PROMPT}\n<think>\n${thought}\n</think>\n`;
  const questions = dimensions.map((name) => `- ${Object.hasOwn(DIMENSIONS, name) ? DIMENSIONS[name] : `${name}: how much ${name} does it show?`}`);
  const scores = dimensions.map((name) => `${JSON.stringify(name)}: 0.5`).join(', ');
  return [
    '## Task: grade a line of reasoning',
    'Below is the reasoning of somebody who solved a programming task. Grade how hard and how well they tried, from 0 (no effort) to 1 (thorough and inventive). Whether the result is right does not matter.',
    '',
    'Ask yourself:',
    ...questions,
    '',
    ...(grading === 'own'
      ? ['Reply with one JSON object and nothing else:', '{"rationale": "two sentences that give your reasons", "grade": 0.75}']
      : [
          'Give each of them a score from 0 to 1, and an overall grade. Reply with one JSON object and nothing else:',
          `{${scores}, "overall_grade": 0.75, "rationale": "two sentences that give your reasons"}`,
        ]),
    '',
    '<reasoning>',
    thought,
    '</reasoning>',
  ].join('\n');
}
