/**
 * price-desk: the model gets an order, looks up prices with one tool, adds with another, and must name the total. The first call's result is an argument of the
 * second, so the model has to read before it goes on.
 */
import { ConfigError, Dataset, defineTool, metric, reward, type RewardContext, type Row, Rubric, toolCallingBaseline, ToolEnv } from 'vf-search';

/** Prices in cents. */
const PRICES: ReadonlyMap<string, number> = new Map([
  ['apple', 40],
  ['bread', 310],
  ['cheese', 525],
  ['jam', 280],
  ['milk', 115],
  ['rice', 190],
]);
const TASK =
  'You work at a price desk. Look up each price in cents with find_price, add the prices with add, and end with <total> the sum in cents </total>.';

interface OrderRow extends Row {
  readonly info: { readonly items: readonly string[]; readonly total: number };
}

const findPrice = defineTool({
  name: 'find_price',
  description: 'Returns the price of an item in cents.',
  parameters: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'], additionalProperties: false },
  // The state belongs to the episode: a tool may add to it, and rewards read it. The model reads the message of an error, and may try again.
  execute: ({ item }, { state }) => {
    const name = String(item).toLowerCase();
    const price = PRICES.get(name);
    if (price === undefined) throw new Error(`no item ${name}; there are ${[...PRICES.keys()].join(', ')}`);
    state['found'] = [...foundIn(state), name];
    return price;
  },
});

function foundIn(state: Readonly<Record<string, unknown>>): readonly string[] {
  return (state['found'] ?? []) as readonly string[];
}

const add = defineTool({
  name: 'add',
  description: 'Adds whole numbers.',
  parameters: {
    type: 'object',
    properties: { numbers: { type: 'array', items: { type: 'integer' }, minItems: 1 } },
    required: ['numbers'],
    additionalProperties: false,
  },
  execute: ({ numbers }) => (numbers as readonly number[]).reduce((a, b) => a + b, 0),
});

/** The total that the model's last turn names; NaN if it names none. */
function totalOf({ segments }: RewardContext<OrderRow>): number {
  const last = segments.findLast(({ kind }) => kind === 'model')?.text ?? '';
  return Number(/<total>\s*(\d+)\s*<\/total>/.exec(last)?.[1] ?? NaN);
}

const isRight = (context: RewardContext<OrderRow>): number => Number(totalOf(context) === context.row.info.total);
/** A partial reward, for the lookups that the model makes before it can add. */
const lookedUp = ({ row, state }: RewardContext<OrderRow>): number =>
  row.info.items.filter((item) => foundIn(state).includes(item)).length / row.info.items.length;

function orders(count: number, from: number): OrderRow[] {
  const items = [...PRICES.keys()];
  return Array.from({ length: count }, (_, i) => {
    const n = from + i;
    const order = [items[n % 6]!, items[(n + 1 + Math.floor(n / 6)) % 6]!];
    return {
      exampleId: `order-${n}`,
      prompt: [
        { role: 'system', content: TASK },
        { role: 'user', content: `What do ${order.join(' and ')} cost together?` },
      ],
      info: { items: order, total: order.reduce((sum, item) => sum + PRICES.get(item)!, 0) },
    };
  });
}

/** Plays without a model: looks up both items, adds what it read, names the sum. */
const baseline = toolCallingBaseline({
  name: 'price-desk-baseline',
  description: 'it looks up both items, adds the prices and names the sum',
  calls: (question, results) => {
    const items = [...PRICES.keys()].filter((item) => question.includes(item));
    if (results.length === 0) return items.map((item) => ({ name: 'find_price', arguments: { item } }));
    // Both tool calls returned, and nothing was added yet.
    return results.length === items.length ? [{ name: 'add', arguments: { numbers: results.map(Number) } }] : [];
  },
  answer: (_, results) => `<total> ${results.at(-1)} </total>`,
});

/** `vf-eval price-desk -a '{"calls": "text"}'` calls this with `{ calls: 'text' }`. */
export function loadEnvironment(args: { readonly calls?: 'native' | 'text' } = {}): ToolEnv<OrderRow> {
  const { calls = 'native', ...unknown } = args;
  if (Object.keys(unknown).length > 0) throw new ConfigError(`Unknown arguments of price-desk: ${Object.keys(unknown).join(', ')}; known: calls`);
  return new ToolEnv({
    id: 'price-desk',
    train: new Dataset('price-desk-train', orders(20, 0)),
    eval: new Dataset('price-desk', orders(10, 20)), // held out
    rubric: new Rubric({
      funcs: [reward(isRight), reward(lookedUp, { weight: 0.2 }), metric((c) => Number(Number.isNaN(totalOf(c))), { name: 'noTotal' })],
    }),
    tools: [findPrice, add],
    calls,
    baseline,
    maxTurns: 5,
    limits: { responseTokens: 300, contextTokens: 4096 },
  });
}
