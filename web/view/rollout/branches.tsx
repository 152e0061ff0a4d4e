/** The sequences of an agent's rollout as a tree: where each left another, and why. */
import type { VNode } from 'preact';
import { branchPlace, branchReason } from '../../../src/core/branch-text.ts';
import type { Message, Part, RolloutBranch } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatReward } from '../figures/numbers.ts';
import type { Route } from '../route/route.ts';
import { patched } from '../route/use-route.ts';
import { Label } from '../text/label.tsx';
import { LongText } from '../text/long-text.tsx';

/** Deeper ones are indented as much. */
const MOST_DEPTH = 6;
const INDENT_REM = 1.1;

interface BranchesProps {
  readonly branches: readonly RolloutBranch[];
  readonly selected: number;
  readonly route: Route;
}

export function Branches({ branches, selected, route }: BranchesProps): VNode {
  const { tools } = branches[selected]!;
  const place = branchPlace(branches[selected]!);
  return (
    <nav class="branches" aria-label="Branches">
      <h2>
        {formatCount(branches.length)} branches <span class="quiet-text">{forksText(branches)}</span>
      </h2>
      <ol class="branch-tree">
        {inTree(branches).map(({ branch, index, depth }) => (
          <li key={index} style={{ paddingInlineStart: `${Math.min(depth, MOST_DEPTH) * INDENT_REM}rem` }}>
            <a href={patched(route, { branch: index === 0 ? undefined : index })} aria-current={index === selected ? 'page' : undefined}>
              <span class="branch-index">{index}</span>
              <span class="branch-reason">
                <Reason branch={branch} index={index} />
              </span>
              <span class="branch-figures number">{figuresOf(branch)}</span>
            </a>
          </li>
        ))}
      </ol>
      {place !== null && (
        <div class="branch-why">
          <LongText text={`Branch ${selected} ${place}`} />
        </div>
      )}
      {tools !== null && (
        <div class="branch-why">
          {tools.length === 0 ? 'It was offered no tools.' : <LongText text={`It was offered other tools: ${tools.join(', ')}`} />}
        </div>
      )}
    </nav>
  );
}

function Reason({ branch: { fork, role }, index }: { readonly branch: RolloutBranch; readonly index: number }): VNode {
  return (
    <>
      {role !== null && (
        <strong>
          <Label text={role} />{' '}
        </strong>
      )}
      {fork === null && index === 0 ? 'the first' : (fork !== null || role === null) && <Label text={branchReason(fork)} />}
    </>
  );
}

function figuresOf({ turns, tokens, sampled, reward }: RolloutBranch): string {
  const parts = [`${formatCount(turns)} ${turns === 1 ? 'turn' : 'turns'}`];
  if (tokens !== null && tokens > 0) parts.push(`${formatCount(sampled ?? 0)} of ${formatCount(tokens)} tokens`);
  if (reward !== null) parts.push(`reward ${formatReward(reward)}`);
  return parts.join(', ');
}

function forksText(branches: readonly RolloutBranch[]): string {
  const kinds = Map.groupBy(
    branches.flatMap(({ fork }) => fork?.kind ?? []),
    (kind) => kind,
  );
  return [...kinds].map(([kind, all]) => `${kind} ${all.length}`).join(', ');
}

interface Placed {
  readonly branch: RolloutBranch;
  readonly index: number;
  readonly depth: number;
}

/** Each branch after the one that it left, with the number of branches above it. */
function inTree(branches: readonly RolloutBranch[]): Placed[] {
  const children = Map.groupBy(branches.keys(), (index) => branches[index]!.parent);
  const placed: Placed[] = [];
  const open = (children.get(null) ?? []).toReversed().map((index) => ({ index, depth: 0 }));
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { index, depth } = next;
    placed.push({ branch: branches[index]!, index, depth });
    open.push(...(children.get(index) ?? []).toReversed().map((child) => ({ index: child, depth: depth + 1 })));
  }
  return placed;
}

/** The messages with which its prompt begins as an earlier branch does. */
export function sharedMessages(branches: readonly RolloutBranch[], { begins_with: begins }: RolloutBranch): readonly Part[] {
  if (begins === null) return [];
  const from = branches[begins.branch]!;
  const before = sharedMessages(branches, from);
  return [...before, ...from.prompt.map(promptPart), ...from.parts].slice(0, begins.messages);
}

export function promptPart({ role, content, tool_calls }: Message): Part {
  return { kind: role, content, tool_calls };
}
