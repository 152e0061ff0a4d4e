/** The files of `vf-init --agent command`: an agent in Python, a process per rollout, over the environment `agent`. */
import type { AgentTemplate } from './agent-template.ts';
import { HELD_OUT_ROWS, ROWS } from './template-rows.ts';

const lines = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');

export function commandFiles(id: string): AgentTemplate {
  const questions = ROWS.map(({ question, golden_answers }, i) => ({ id: `${i + 1}`, question, golden_answers }));
  return {
    name: 'a program in Python, which runs once for each question',
    asks: "over OpenAI's Chat Completions API",
    dependencies: {},
    files: {
      'environment.ts': environment(id),
      'agent.py': agent(PLAIN),
      'agent_openai.py': agent(OPENAI),
      'reward.ts': REWARD,
      'environment.test.ts': test(id),
      'train.jsonl': lines(questions.slice(0, -HELD_OUT_ROWS)),
      'test.jsonl': lines(questions.slice(-HELD_OUT_ROWS)),
      'notes.jsonl': lines(ROWS.map(({ title, note }) => ({ title, note }))),
    },
    described: [
      '| `agent.py` | the agent, in Python without packages. It reads a row as JSON on stdin and prints `{"answer": ...}` |',
      `| \`agent_openai.py\` | the same with the package \`openai\` (\`pip install openai\`): \`-a '{"command": ["python3", "PATH/agent_openai.py"]}'\` |`,
      '| `environment.ts` | the command, its rows and its reward: arguments of the environment `agent`, which `-a` can change |',
      '| `reward.ts` | the reward of an answer |',
      '| `train.jsonl`, `test.jsonl` | the questions, one JSON object per line: `question` and `golden_answers`; those of `test.jsonl` are held out for evaluation |',
      '| `notes.jsonl` | what the agent can look up |',
    ],
  };
}

function environment(id: string): string {
  return `/** ${id}: the program agent.py gets a question, can look up notes, and must give one of the golden answers. */
import { fileURLToPath } from 'node:url';
import type { AgentEnv, LoadContext } from 'vf-search';
import { type AgentRow, loadEnvironment as loadAgent } from 'vf-search/environments/agent';

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** \`vf-eval ${id} -a '{"seconds": 20}'\` changes one of these arguments. */
export function loadEnvironment(args: Readonly<Record<string, unknown>> = {}, context: Partial<LoadContext> = {}): Promise<AgentEnv<AgentRow>> {
  const own = {
    name: '${id}',
    command: ['python3', here('agent.py')],
    dataset: here('test.jsonl'),
    train_dataset: here('train.jsonl'),
    answer: 'json', // the last line such as {"answer": "Paris"}
    reward: here('reward.ts'),
    seconds: 60,
    max_turns: 4,
    max_tokens: 300,
  };
  return loadAgent({ ...own, ...args }, context);
}
`;
}

const REWARD = `/** The reward of an answer: 1 if it is a golden answer, ignoring case, and up to 0.1 for brevity, which a model that knows no answer yet learns first. */
import type { RewardContext } from 'vf-search';
import type { AgentRow } from 'vf-search/environments/agent';

export function reward({ row, state, modelText }: RewardContext<AgentRow>): number {
  const answer = String(state['answer']).trim().toLowerCase();
  const isRight = row.info.golden_answers.some((golden) => golden.toLowerCase() === answer);
  // 1 for up to 20 words over all turns, falling to 0 at 100.
  const brevity = Math.min(1, Math.max(0, (100 - modelText.split(/\\s+/).length) / 80));
  return Number(isRight) + 0.1 * brevity;
}
`;

interface Client {
  readonly about: string;
  readonly imports: string;
  /** Defines \`ask(messages)\`, which returns the policy's message as a dictionary. */
  readonly ask: string;
}

const PLAIN: Client = {
  about: 'in Python without packages',
  imports: 'import json\nimport os\nimport re\nimport sys\nimport urllib.request',
  ask: `def ask(messages):
    body = {"model": os.environ["VF_MODEL"], "messages": messages, "tools": TOOLS}
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]`,
};

const OPENAI: Client = {
  about: 'in Python with the package openai',
  imports: 'import json\nimport os\nimport re\nimport sys\n\nfrom openai import OpenAI',
  ask: `client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY


def ask(messages):
    reply = client.chat.completions.create(model=os.environ["VF_MODEL"], messages=messages, tools=TOOLS)
    return reply.choices[0].message.model_dump(exclude_none=True)`,
};

function agent({ about, imports, ask }: Client): string {
  return `"""The agent: a loop over one tool, ${about}. Its model is the policy. It runs once for each question, in a folder of its own."""

${imports}

TASK = "Look things up with find_note before you answer. End with <answer> your answer </answer>, in a few words."
PARAMETERS = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for"}},
    "required": ["query"],
    "additionalProperties": False,
}
DESCRIPTION = "Finds notes that contain words of a query."
TOOLS = [{"type": "function", "function": {"name": "find_note", "description": DESCRIPTION, "parameters": PARAMETERS}}]
MOST_TURNS = 4

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "notes.jsonl")) as file:
    LINES = [json.loads(line) for line in file]
NOTES = [f"Doc {i + 1}(Title: {line['title']}) {line['note']}" for i, line in enumerate(LINES)]


def words_of(text):
    return set(re.findall(r"[^\\W\\d_]{3,}", text.lower()))


def find_note(query):
    """The two notes that share the most words with the query, best first."""
    asked = words_of(query)
    found = sorted((note for note in NOTES if asked & words_of(note)), key=lambda note: -len(asked & words_of(note)))
    return "\\n".join(found[:2]) or "No note contains these words."


${ask}


def run(question):
    """The text of the last turn."""
    messages = [{"role": "system", "content": TASK}, {"role": "user", "content": question}]
    for _ in range(MOST_TURNS):
        message = ask(messages)
        messages.append(message)
        calls = message.get("tool_calls") or []
        if not calls:
            return message.get("content") or ""
        for call in calls:
            try:
                result = find_note(json.loads(call["function"]["arguments"])["query"])
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                result = f"Error: {error}"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return ""


text = run(json.load(sys.stdin)["question"])
found = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
# A program without an answer has failed. A model without one is wrong.
print(json.dumps({"answer": (found[1] if found else text).strip() or "no answer"}))
`;
}

function test(id: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadEnvironment } from './environment.ts';

test('${id} holds rows out for evaluation, and rewards the right answer alone', async () => {
  const { train, eval: held, rubric } = await loadEnvironment({}, { purpose: 'training' });
  assert.deepEqual([train.length, held.length], [${ROWS.length - HELD_OUT_ROWS}, ${HELD_OUT_ROWS}]);
  const { signal } = new AbortController();
  for (const row of [...train, ...held]) {
    for (const [answer, least, most] of [[row.info.golden_answers[0]!, 1, 1.1], ['no answer', 0, 0.1]] as const) {
      const { reward } = await rubric.score({
        ...{ row, signal, prompt: row.prompt, state: { answer }, stop: 'completed', parser: rubric.parser, models: {} },
        ...{ segments: [], scoredText: answer, modelText: answer },
      });
      assert.ok(reward >= least && reward <= most, \`\${answer}: \${reward}\`);
    }
  }
});
`;
}
