/** A time for names of files: `20300131T090000Z`. */
export function stampOf(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
}
