/** @param fault names the file and what happened to it */
export function changedAdapterText(directory: string, fault: string): string {
  return `The adapter in ${directory} is damaged: ${fault}. Restore it from a copy or use another adapter; to use it as it is, copy its folder elsewhere`;
}
