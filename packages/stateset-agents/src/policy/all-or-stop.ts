/** All of them. Where one fails (a caller's callback, say) the others are stopped first: nobody is to work for nobody. */
export async function allOrStop<T>(work: readonly Promise<T>[], stop: () => void): Promise<T[]> {
  try {
    return await Promise.all(work);
  } catch (error) {
    stop();
    await Promise.allSettled(work);
    throw error;
  }
}
