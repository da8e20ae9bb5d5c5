"""What a run tells of itself: history, result, progress, trackers."""
