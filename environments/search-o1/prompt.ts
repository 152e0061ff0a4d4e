/** Search-o1's prompts, byte for byte (scripts/prompts.py, MIT License; NOTICE has its text). */

/** The kind of question in an episode. */
export type Instruction = 'singleqa' | 'multiqa' | 'math' | 'gpqa';

/** Families of models for which upstream has other words: QwQ reasons unasked, Llama must answer with a letter in `gpqa`. */
export type ModelName = 'qwq' | 'llama';

export interface ReasoningPromptOptions {
  /** @default 'singleqa' */
  readonly instruction?: Instruction;
  /** Searches that the prompt allows. @default 5 for `singleqa`, else 10 */
  readonly maxSearchLimit?: number;
  /** @default null, any other model */
  readonly modelName?: ModelName | null;
}

/** Upstream's number of searches: 5 for questions of one fact, else 10. */
export function searchLimit(instruction: Instruction): number {
  return instruction === 'singleqa' ? 5 : 10;
}

/** The one user message of an episode. */
export function reasoningPrompt(question: string, options: ReasoningPromptOptions = {}): string {
  const { instruction = 'singleqa', maxSearchLimit = searchLimit(instruction), modelName = null } = options;
  return searchInstruction(instruction, maxSearchLimit) + taskInstruction(instruction, question, modelName);
}

const SYSTEM = '(System returns processed information from relevant web pages)\n\n';

interface Example {
  readonly question: string;
  readonly steps: string;
  readonly query: string;
  /** The next action of the assistant if it searches again. */
  readonly more?: string;
}

const EXAMPLES: Readonly<Record<Instruction | 'code', Example>> = {
  singleqa: {
    question: 'Who got the first Nobel Prize in Physics?',
    steps: '- I need to find out who was awarded the first Nobel Prize in Physics.',
    query: 'first Nobel Prize in Physics winner',
  },
  multiqa: {
    question: 'Alice David is the voice of Lara Croft in a video game developed by which company?',
    steps: '- I need to find out who voices Lara Croft in the video game.\n- Then, I need to determine which company developed that video game.',
    query: 'Alice David Lara Croft voice',
    more:
      'Assistant thinks: The search results indicate that Alice David is the voice of Lara Croft in a specific video game. Now, I need to find out ' +
      'which company developed that game.\n\nAssistant:\n<|begin_search_query|>video game developed by Alice David Lara Croft<|end_search_query|>\n\n' +
      SYSTEM,
  },
  math: {
    question: 'How do you compute the integral of e^(x^2) dx?',
    steps: '- I might need to look up techniques for integrating e^(x^2).',
    query: 'methods to integrate e^(x^2)',
  },
  gpqa: {
    question: 'What is the energy range of pp III neutrinos?',
    steps: '- I might need to look up details about pp III neutrinos.',
    query: 'pp III neutrino energy spectrum',
  },
  code: {
    question: 'Find the minimum number of vertices in a Steiner tree that includes all specified vertices in a given tree.',
    steps:
      '- I need to understand what a Steiner tree is and how to compute the minimum number of vertices required to include all specified vertices in a ' +
      'given tree.',
    query: 'Minimum Steiner Tree problem in trees',
  },
};

/** The instruction for searches, with an example. `code` is upstream's for programs; no environment here uses it. */
export function searchInstruction(kind: Instruction | 'code', maxSearchLimit: number): string {
  const { question, steps, query, more = '' } = EXAMPLES[kind];
  return (
    "You are a reasoning assistant with the ability to perform web searches to help you answer the user's question accurately. You have special tools:\n\n" +
    '- To perform a search: write <|begin_search_query|> your query here <|end_search_query|>.\n' +
    'Then, the system will search and analyze relevant web pages, then provide you with helpful information in the format ' +
    '<|begin_search_result|> ...search results... <|end_search_result|>.\n\n' +
    `You can repeat the search process multiple times if necessary. The maximum number of search attempts is limited to ${maxSearchLimit}.\n\n` +
    'Once you have all the information you need, continue your reasoning.\n\n' +
    `Example:\nQuestion: "${question}"\nAssistant thinking steps:\n${steps}\n\n` +
    `Assistant:\n<|begin_search_query|>${query}<|end_search_query|>\n\n${SYSTEM}${more}` +
    'Assistant continues reasoning with the new information...\n\n' +
    'Remember:\n- Use <|begin_search_query|> to request a web search and end with <|end_search_query|>.\n' +
    '- When done searching, continue your reasoning.\n\n'
  );
}

const TASKS: Readonly<Record<Instruction, string>> = {
  singleqa: 'Please answer the following question.',
  multiqa: 'Please answer the following question.',
  math: 'Please answer the following math question.',
  gpqa: 'Please answer the following multiple-choice question.',
};
const LETTER_ONLY = ' Your final choice should be one of the letters A, B, C, or D, DO NOT include any answer content.';

/** The question, with the instruction for its answer. */
export function taskInstruction(instruction: Instruction, question: string, modelName: ModelName | null = null): string {
  const isChoice = instruction === 'gpqa';
  const format = isChoice ? 'final choice in the format \\boxed{YOUR_CHOICE}.' : 'final answer in the format \\boxed{YOUR_ANSWER}.';
  const how =
    modelName === 'qwq'
      ? `You should provide your ${format}`
      : `You should think step by step to solve it.\n\nProvide your ${format}${isChoice && modelName === 'llama' ? LETTER_ONLY : ''}`;
  return `${TASKS[instruction]} ${how}\n\nQuestion:\n${question}\n\n`;
}

export interface RefinementInput {
  /** The reasoning so far, as `previousReasoning` shows it. */
  readonly reasoning: string;
  readonly query: string;
  /** The pages, as `formatWebPages` prints them. */
  readonly documents: string;
}

/** The user message that asks a refiner to read the pages (Reason-in-Documents). */
export function refinementPrompt({ reasoning, query, documents }: RefinementInput): string {
  return `**Task Instruction:**

You are tasked with reading and analyzing web pages based on the following inputs: **Previous Reasoning Steps**, **Current Search Query**, and **Searched Web Pages**. Your objective is to extract relevant and helpful information for **Current Search Query** from the **Searched Web Pages** and seamlessly integrate this information into the **Previous Reasoning Steps** to continue reasoning for the original question.

**Guidelines:**

1. **Analyze the Searched Web Pages:**
- Carefully review the content of each searched web page.
- Identify factual information that is relevant to the **Current Search Query** and can aid in the reasoning process for the original question.

2. **Extract Relevant Information:**
- Select the information from the Searched Web Pages that directly contributes to advancing the **Previous Reasoning Steps**.
- Ensure that the extracted information is accurate and relevant.

3. **Output Format:**
- **If the web pages provide helpful information for current search query:** Present the information beginning with \`**Final Information**\` as shown below.
**Final Information**

[Helpful information]

- **If the web pages do not provide any helpful information for current search query:** Output the following text.

**Final Information**

No helpful information found.

**Inputs:**
- **Previous Reasoning Steps:**  
${reasoning}

- **Current Search Query:**  
${query}

- **Searched Web Pages:**  
${documents}

Now you should analyze each web page and find helpful information based on the current search query "${query}" and previous reasoning steps.
`;
}
