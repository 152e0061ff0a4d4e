/** The messages for content that is loading, could not be loaded, or is empty: first the event, then the remedy. */
import { Component, type ComponentChildren, type VNode } from 'preact';
import type { Loaded } from '../source/use-loaded.ts';
import { Text } from '../text/text.tsx';

export function LoadingState({ what }: { readonly what: string }): VNode {
  return (
    <div class="state" role="status">
      <span class="state-bar" />
      Loading {what}
    </div>
  );
}

export function ProblemState({ problem, retry }: { readonly problem: string; readonly retry?: (() => void) | undefined }): VNode {
  return (
    <div class="state state-problem" role="alert">
      <p>
        <Text text={problem} />
      </p>
      {retry !== undefined && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Of damaged files at most so many have a line each. */
const MOST_PROBLEMS = 10;

export function ProblemLines({ problems }: { readonly problems: readonly string[] }): VNode {
  const more = problems.length - MOST_PROBLEMS;
  const shown = [...problems.slice(0, MOST_PROBLEMS), ...(more > 0 ? [`${more} further ${more === 1 ? 'file is' : 'files are'} damaged too.`] : [])];
  return (
    <>
      {shown.map((problem) => (
        <p class="problem" key={problem}>
          <Text text={problem} />
        </p>
      ))}
    </>
  );
}

export function EmptyState({ title, children }: { readonly title: string; readonly children: ComponentChildren }): VNode {
  return (
    <div class="state">
      <h2>{title}</h2>
      <div class="state-help">{children}</div>
    </div>
  );
}

export interface LoadedViewProps<T> {
  readonly loaded: Loaded<T>;
  readonly what: string;
  readonly children: (value: T) => ComponentChildren;
}

/** The value, if there is one; after a failed reload, the error is shown above the earlier value. */
export function LoadedView<T>({ loaded, what, children }: LoadedViewProps<T>): VNode {
  const { value, error, reload } = loaded;
  if (error !== null) return <ProblemState problem={error.message} retry={reload} />;
  if (value === null) return <LoadingState what={what} />;
  return <>{children(value)}</>;
}

interface GuardProps {
  /** A new place clears the problem. */
  readonly place: string;
  readonly children: ComponentChildren;
}

/** Catches errors of a screen, so that the rest of the page stays. */
export class ScreenGuard extends Component<GuardProps, { problem: string | null; place: string }> {
  override state = { problem: null as string | null, place: this.props.place };

  static override getDerivedStateFromProps(props: GuardProps, state: { problem: string | null; place: string }) {
    return props.place === state.place ? null : { problem: null, place: props.place };
  }

  override componentDidCatch(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.setState({ problem: `This view could not be drawn (${message}). Go back, and please report it.` });
  }

  override render(): ComponentChildren {
    return this.state.problem === null ? this.props.children : <ProblemState problem={this.state.problem} />;
  }
}
