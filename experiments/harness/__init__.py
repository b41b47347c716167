"""What every experiment needs: data, methods run in processes of their own, scores, results."""
