"""What a variant computes, held against the reference, and what its calls do, against what they ought to."""
