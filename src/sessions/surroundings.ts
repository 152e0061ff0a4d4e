/** The parts of a process that a session uses. Nothing below a command reads the process itself. */
export interface Surroundings {
  /** Environment variables. */
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** Takes a line for the user: a notice, or the name of a slow task. */
  readonly warn: (line: string) => void;
  /** Values that must never be shown or written; a session adds to it as it learns them. */
  readonly secrets: Set<string>;
  readonly signal: AbortSignal;
}
